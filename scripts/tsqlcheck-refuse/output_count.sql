-- refused: OUTPUT has another number
-- Refused when the statement is compiled.
DECLARE @taken TABLE (id bigint, attempt bigint);
UPDATE turno.job SET attempt = attempt + 1 OUTPUT inserted.id INTO @taken (id, attempt) WHERE id = 1;
