//! The SQL Server backend of turno.
