-- refused: error 35100
-- Numbers of our own begin at 50000.
THROW 31001, N'no', 1;
