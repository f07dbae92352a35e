//! What stands in the schema against what the files of this crate would put there. It refuses to parse more of them than their
//! own fixed form, and to call anything well that this login cannot see.

use tiberius::Row;
use turno_contract::Result;
use turno_contract::doctor::{self, Check, Difference, Index, Right, difference, expected_rights};

use super::{Looker, NEEDS_DEFINITION};
use crate::files;
use crate::rows::get;

fn text(row: &Row, column: &str) -> String {
    get::<Option<String>>(row, column).ok().flatten().unwrap_or_default()
}

/// Procedures, functions, constraints and triggers.
pub(super) async fn drift(looker: &mut Looker) -> Check {
    match differences(looker).await {
        Ok(Some((differences, looked_at))) => doctor::drift(&differences, looked_at),
        Ok(None) => Check::unknown(
            "drift",
            "the definitions of routines are hidden from this login",
            NEEDS_DEFINITION,
        ),
        Err(error) => Check::unseen("drift", &error, NEEDS_DEFINITION),
    }
}

/// `None` if this login does not see them.
async fn differences(looker: &mut Looker) -> Result<Option<(Vec<Difference>, usize)>> {
    let routines = looker.rows("routines", &[]).await?;
    let bodies: Vec<(String, String)> =
        routines.iter().map(|row| (text(row, "name"), as_stored(&text(row, "body")))).collect();
    if bodies.iter().all(|(_, body)| body.is_empty()) {
        return Ok(None);
    }
    let expected = expected_routines(&looker.target.schema);
    let pairs = bodies.iter().map(|(name, body)| (name.as_str(), body.as_str()));
    let mut differences = difference("routine", &expected, pairs);
    let constraints = looker.rows("constraints", &[]).await?;
    let names = expected_constraints();
    for name in &names {
        let found = constraints.iter().find(|row| text(row, "name") == *name);
        match found.map(|row| get::<bool>(row, "is_valid").unwrap_or(true)) {
            Some(true) => {}
            Some(false) => differences.push(Difference::Changed(format!("constraint {name} (not trusted)"))),
            None => differences.push(Difference::Missing(format!("constraint {name}"))),
        }
    }
    for row in looker.rows("triggers", &[]).await? {
        let (name, table) = (text(&row, "name"), text(&row, "table_name"));
        differences.push(Difference::Stray(format!("trigger {name} on {table}")));
    }
    Ok(Some((differences, expected.len() + names.len())))
}

/// The server stores a CREATE OR ALTER as a CREATE.
fn as_stored(text: &str) -> String {
    text.replacen("CREATE OR ALTER", "CREATE", 1)
}

fn expected_routines(schema: &str) -> Vec<(&'static str, String)> {
    let files = files::INTERNAL.iter().chain(files::OPERATIONS);
    files.map(|(name, text)| (*name, as_stored(&files::in_schema(text, schema)))).collect()
}

fn expected_constraints() -> Vec<String> {
    let lines = files::SCHEMA.iter().flat_map(|(_, text)| text.lines());
    let name = |line: &str| {
        let (name, _) = line.strip_prefix("    CONSTRAINT ")?.split_once(" CHECK ")?;
        Some(name.to_owned())
    };
    lines.filter_map(name).collect()
}

pub(super) fn indexes(schema: &str, rows: &[Row]) -> Check {
    if rows.is_empty() {
        return Check::unknown("indexes", "the tables are hidden from this login", NEEDS_DEFINITION);
    }
    let mut broken = Vec::new();
    let is = |row: &Row, column| get::<bool>(row, column).unwrap_or(false);
    let found: Vec<Index> = rows
        .iter()
        .map(|row| {
            let (name, table) = (text(row, "name"), text(row, "table_name"));
            if is(row, "is_disabled") {
                broken.push(format!("{name} on {table} (disabled)"));
            }
            let shape = shape(is(row, "is_unique"), &text(row, "names"), is(row, "has_filter"));
            Index { name, table, shape }
        })
        .collect();
    doctor::indexes(&expected_indexes(schema), &found, &broken)
}

fn shape(is_unique: bool, columns: &str, has_filter: bool) -> String {
    let unique = if is_unique { "unique: " } else { "" };
    format!("{unique}{columns}{}", if has_filter { " where ..." } else { "" })
}

fn expected_indexes(schema: &str) -> Vec<Index> {
    let lines = files::SCHEMA.iter().flat_map(|(_, text)| text.lines());
    let of_line = |line: &str| {
        let (kind, rest) = line.strip_prefix("CREATE ")?.split_once("INDEX ")?;
        let (name, rest) = rest.split_once(" ON turno.")?;
        let (table, rest) = rest.split_once(" (")?;
        let (columns, rest) = rest.split_once(')')?;
        let shape = shape(kind.contains("UNIQUE"), &columns.replace(' ', ""), rest.contains(" WHERE "));
        Some(Index { name: name.to_owned(), table: table.replace("turno", schema), shape })
    };
    lines.filter_map(of_line).collect()
}

pub(super) fn grants(schema: &str, rows: &[Row]) -> Check {
    if rows.is_empty() {
        return Check::unknown("grants", "the grants are hidden from this login", NEEDS_DEFINITION);
    }
    let prefix = format!("{schema}_");
    let (mut found, mut exposed) = (Vec::new(), Vec::new());
    for row in rows {
        let (holder, object) = (text(row, "holder"), text(row, "object_name"));
        match (text(row, "what").as_str(), holder.strip_prefix(&prefix)) {
            ("table", _) => exposed.push(format!("{holder} holds rights on the table {object}")),
            (_, Some(role)) => found.push(Right { routine: object, role: role.to_owned() }),
            _ if holder == "public" => exposed.push(format!("everybody may call {object}")),
            _ => {}
        }
    }
    doctor::grants(&expected_rights(files::GRANTS), &found, &exposed)
}

pub(super) fn login(schema: &str, facts: &Row, rows: &[Row]) -> Check {
    let prefix = format!("{schema}_");
    let roles = rows.iter().map(|row| text(row, "role_name"));
    let roles: Vec<String> = roles.filter_map(|role| role.strip_prefix(&prefix).map(str::to_owned)).collect();
    let is_owner = get::<bool>(facts, "is_owner").unwrap_or(false);
    doctor::login(&text(facts, "login_name"), &roles, is_owner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_files_are_understood() {
        let indexes = expected_indexes("jobs");
        let ready = indexes.iter().find(|index| index.name == "job_ready").expect("the claim's index");
        assert_eq!(
            (ready.table.as_str(), ready.shape.as_str()),
            ("unfinished_job", "queue,rank,id where ...")
        );
        let unique = indexes.iter().find(|index| index.name == "job_unique").expect("the unique index");
        assert_eq!(unique.shape, "unique: queue,unique_key where ...");
        assert!(expected_constraints().iter().any(|name| name == "job_running"));
        assert!(
            expected_routines("jobs")
                .iter()
                .all(|(_, text)| text.contains("\nCREATE ") && text.contains(" jobs."))
        );
    }
}
