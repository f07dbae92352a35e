-- refused: Incorrect syntax near
-- Every TRY has its CATCH.
BEGIN TRY
    SELECT 1 AS one;
END TRY
SELECT 2 AS two;
