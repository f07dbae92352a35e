//! The release to come, as far as an upgrade has to do with it: a column, an index, a `_v2` routine, and another text of
//! the routine that workers call most.

use turno::schema_files::{Ahead, File};

use crate::rig::Engine;

/// The newer schema, with what is called before each step of its migration.
pub fn ahead(engine: Engine, step: fn(&str)) -> Ahead {
    match engine {
        Engine::Sqlite => Ahead { schema: SQLITE, routines: &[], grants: "", step },
        Engine::Postgres => Ahead { schema: POSTGRES, routines: POSTGRES_ROUTINES, grants: GRANTS, step },
        Engine::Mariadb | Engine::Mysql => {
            Ahead { schema: MYSQL, routines: MYSQL_ROUTINES, grants: GRANTS, step }
        }
    }
}

/// The call of the `_v2` routine, or what stands for it where there are no routines.
pub fn enqueue_v2(engine: Engine) -> &'static str {
    match engine {
        Engine::Sqlite => {
            "INSERT INTO turno_job (queue, kind, payload, state, rank, note) \
             VALUES ('jobs', 'k', '2', 'ready', 1, 'from the new program')"
        }
        Engine::Postgres => "SELECT turno.enqueue_v2('jobs', 'k', '2', 'from the new program')",
        Engine::Mariadb | Engine::Mysql => "CALL turno.enqueue_v2('jobs', 'k', '2', 'from the new program')",
    }
}

const GRANTS: &str = "enqueue_v2 producer";

const SQLITE: &[File] = &[
    (
        "0002_job_note.sql",
        "ALTER TABLE turno_job ADD COLUMN note TEXT;\nUPDATE turno_meta SET version = 2;\n",
    ),
    (
        "0003_job_note_index.sql",
        "CREATE INDEX turno_job_note ON turno_job (note);\nUPDATE turno_meta SET version = 3;\n",
    ),
];

const POSTGRES: &[File] = &[
    ("0002_job_note", "ALTER TABLE turno.job ADD COLUMN note text COLLATE \"C\";\n"),
    (
        "0003_job_note_online",
        "CREATE INDEX CONCURRENTLY job_note ON turno.job (note) WHERE note IS NOT NULL;\n",
    ),
];

const POSTGRES_ROUTINES: &[File] = &[
    (
        "claim",
        concat!(include_str!("../../../turno-postgres/sql/operations/claim.sql"), "-- A newer text.\n"),
    ),
    (
        "enqueue_v2",
        "CREATE OR REPLACE FUNCTION turno.enqueue_v2(p_queue text, p_kind text, p_payload text, p_note text, OUT id bigint)
         LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
         AS $$ BEGIN
             SELECT e.id INTO enqueue_v2.id FROM turno.enqueue(p_queue, p_kind, p_payload) e;
             UPDATE turno.job j SET note = p_note WHERE j.id = enqueue_v2.id;
         END $$;\n",
    ),
];

const MYSQL: &[File] = &[
    ("0002_job_note", "ALTER TABLE turno.job ADD COLUMN note VARBINARY(200);\n"),
    (
        "0003_job_note_online",
        "ALTER TABLE turno.job ADD INDEX job_note (note), ALGORITHM = INPLACE, LOCK = NONE;\n",
    ),
];

const MYSQL_ROUTINES: &[File] = &[
    ("claim", concat!(include_str!("../../../turno-mysql/sql/operations/claim.sql"), "\n-- A newer text.\n")),
    (
        "enqueue_v2",
        "CREATE PROCEDURE turno.enqueue_v2(IN p_queue VARCHAR(255), IN p_kind VARCHAR(255), IN p_payload LONGTEXT,
             IN p_note VARCHAR(200))
         BEGIN
             DECLARE v_now BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
             INSERT INTO turno.job (queue, kind, payload, state, run_at, first_due_at, created_at, `rank`, operation_id, note)
             VALUES (p_queue, p_kind, p_payload, 'ready', v_now, v_now, v_now, v_now, UNHEX(REPLACE(UUID(), '-', '')), p_note);
         END\n",
    ),
];
