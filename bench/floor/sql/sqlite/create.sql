-- The floor's own file: a table with nothing but the columns that any queue needs.
CREATE TABLE bare (id INTEGER PRIMARY KEY, queue TEXT, kind TEXT, payload TEXT);
CREATE TABLE lease (
    id           INTEGER PRIMARY KEY,
    rank         INTEGER NOT NULL,
    state        TEXT NOT NULL DEFAULT 'ready',
    token        BLOB,
    lease_until  INTEGER,
    payload      TEXT NOT NULL
);
CREATE INDEX lease_ready ON lease (rank, id) WHERE state = 'ready';
