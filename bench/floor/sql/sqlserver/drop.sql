IF SCHEMA_ID(N'turno_floor') IS NOT NULL AND OBJECT_ID(N'turno_floor.made_by_turno_bench') IS NULL
    THROW 50000, N'there is a schema turno_floor that turno bench did not make; it is left alone', 1;
DROP TABLE IF EXISTS turno_floor.same, turno_floor.lease, turno_floor.bare, turno_floor.made_by_turno_bench;
DROP SCHEMA IF EXISTS turno_floor;
