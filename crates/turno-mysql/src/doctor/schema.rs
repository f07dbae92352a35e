//! What stands in the schema against what the files of this crate would put there. It refuses to parse more of them than their
//! own fixed form, and to call anything well that this login cannot see.

use mysql_async::Row;
use turno_contract::doctor::{
    self, Check, Difference, Index, Right, difference, expected_rights, named, same_statement,
};
use turno_contract::{Engine, Result};

use super::server::Pairs;
use super::{Looker, NEEDS_MYSQL, NEEDS_OWNER};
use crate::files;
use crate::rows::get;

fn text(row: &Row, column: &str) -> String {
    get::<Option<String>>(row, column).ok().flatten().unwrap_or_default()
}

/// Whether this login sees the definitions, as the owner and administrators do.
fn sees_bodies(routines: &[Row]) -> bool {
    routines.iter().any(|row| !text(row, "body").is_empty())
}

/// Procedures, columns, constraints and triggers.
pub(super) async fn drift(looker: &mut Looker, routines: &Result<Vec<Row>>) -> Check {
    let routines = match routines {
        Ok(routines) => routines,
        Err(error) => return Check::unseen("drift", error, NEEDS_OWNER),
    };
    if !sees_bodies(routines) {
        return Check::unknown(
            "drift",
            "the definitions of procedures are hidden from this login",
            NEEDS_OWNER,
        );
    }
    match differences(looker, routines).await {
        Ok((differences, looked_at)) => doctor::drift(&differences, looked_at),
        Err(error) => Check::unseen("drift", &error, NEEDS_OWNER),
    }
}

async fn differences(looker: &mut Looker, routines: &[Row]) -> Result<(Vec<Difference>, usize)> {
    let mut expected = expected_routines(looker.target.schema_name());
    let found: Vec<(String, String)> = routines
        .iter()
        .map(|row| (text(row, "name"), format!("{} @{}", text(row, "body"), text(row, "security"))))
        .collect();
    for (name, text) in &mut expected {
        let stored = found.iter().find(|(other, _)| other == name).map(|(_, text)| text);
        let stored = stored.filter(|stored| as_stored(text).iter().any(|form| same_statement(form, stored)));
        *text = stored.unwrap_or(text).clone();
    }
    let pairs = found.iter().map(|(name, text)| (name.as_str(), text.as_str()));
    let mut differences = difference("procedure", &expected, pairs);
    let tables = expected_tables(looker.target.schema_name());
    let columns = looker.rows("columns", Vec::new()).await?;
    for table in &tables {
        let found = columns.iter().find(|row| text(row, "table_name") == table.name);
        match found.map(|row| text(row, "names")) {
            None => differences.push(Difference::Missing(format!("table {}", table.name))),
            Some(names) if names == table.columns.join(",") => {}
            Some(_) => differences.push(Difference::Changed(format!("the columns of {}", table.name))),
        }
    }
    let constraints = looker.rows("constraints", Vec::new()).await?;
    for name in tables.iter().flat_map(|table| &table.constraints) {
        if !constraints.iter().any(|row| text(row, "name") == *name) {
            differences.push(Difference::Missing(format!("constraint {name}")));
        }
    }
    for row in looker.rows("triggers", Vec::new()).await? {
        let (name, table) = (text(&row, "name"), text(&row, "table_name"));
        differences.push(Difference::Stray(format!("trigger {name} on {table}")));
    }
    let constraints = tables.iter().map(|table| table.constraints.len()).sum::<usize>();
    Ok((differences, expected.len() + tables.len() + constraints))
}

fn expected_routines(schema: &str) -> Vec<(&'static str, String)> {
    let files = files::INTERNAL.iter().chain(files::OPERATIONS);
    files
        .map(|(name, text)| {
            let text = files::in_schema(text, schema);
            (*name, format!("{} @DEFINER", body(&text).trim_end_matches(';')))
        })
        .collect()
}

/// From the outermost block on, with its label if it has one.
fn body(text: &str) -> &str {
    let begins = |line: &&str| line.starts_with("BEGIN") || line.trim_end().ends_with(": BEGIN");
    let head: usize = text.split_inclusive('\n').take_while(|line| !begins(line)).map(str::len).sum();
    text[head..].trim()
}

/// The forms in which a server may show the text. What is for one of the two servers stands in a comment with a version: one
/// shows the text as it is, one what the comment says, and one nothing of it. And MySQL shows a doubled quote within a string
/// as a single one.
fn as_stored(text: &str) -> Vec<String> {
    let (mut with, mut without, mut rest) = (String::new(), String::new(), text);
    while let Some((before, (inside, after))) =
        rest.split_once("/*!80000").and_then(|(before, rest)| Some((before, rest.split_once("*/")?)))
    {
        with += &format!("{before}{inside}");
        without += before;
        rest = after;
    }
    let forms = [text.to_owned(), with + rest, without + rest];
    let shown = forms.iter().map(|form| with_single_quotes(form)).collect::<Vec<_>>();
    forms.into_iter().chain(shown).collect()
}

fn with_single_quotes(text: &str) -> String {
    let (mut out, mut is_string) = (String::with_capacity(text.len()), false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        out.push(c);
        match c {
            '\'' if is_string && chars.peek() == Some(&'\'') => drop(chars.next()),
            '\'' => is_string = !is_string,
            _ => {}
        }
    }
    out
}

struct Table {
    name: String,
    columns: Vec<String>,
    constraints: Vec<String>,
    indexes: Vec<Index>,
}

/// The tables of the schema files, which have a column, a key or a constraint on each line that is indented once.
fn expected_tables(schema: &str) -> Vec<Table> {
    let mut tables: Vec<Table> = Vec::new();
    let mut inside = false;
    for line in files::SCHEMA.iter().flat_map(|(_, text)| text.lines()) {
        if let Some(rest) = line.strip_prefix("CREATE TABLE IF NOT EXISTS turno.") {
            let name = rest.trim_end_matches(['(', ' ']).replace("turno", schema);
            tables.push(Table { name, columns: Vec::new(), constraints: Vec::new(), indexes: Vec::new() });
            inside = true;
        } else if line.starts_with(')') {
            inside = false;
        } else if let (true, Some(table)) = (inside, tables.last_mut()) {
            table.read(line);
        }
    }
    tables
}

impl Table {
    fn read(&mut self, line: &str) {
        if !line.starts_with("    ") || line.starts_with("     ") || line.trim_start().starts_with("--") {
            return;
        }
        let line = line.trim().replace('`', "");
        let is_unique = line.starts_with("UNIQUE KEY ");
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["PRIMARY", ..] => {}
            ["CONSTRAINT", name, ..] => self.constraints.push(name.to_owned()),
            ["KEY", name, ..] | ["UNIQUE", "KEY", name, ..] => {
                let columns =
                    line.split_once('(').map_or("", |(_, rest)| rest.split(')').next().unwrap_or(""));
                let shape = shape(is_unique, &columns.replace(' ', ""));
                self.indexes.push(Index { name: name.to_owned(), table: self.name.clone(), shape });
            }
            [name, ..] => self.columns.push(name.to_owned()),
            [] => {}
        }
    }
}

fn shape(is_unique: bool, columns: &str) -> String {
    format!("{}{columns}", if is_unique { "unique: " } else { "" })
}

pub(super) async fn indexes(looker: &mut Looker) -> Check {
    match found_indexes(looker).await {
        Ok((found, _)) if found.is_empty() => {
            Check::unknown("indexes", "the tables are hidden from this login", NEEDS_OWNER)
        }
        Ok((found, broken)) => {
            let tables = expected_tables(looker.target.schema_name());
            let expected: Vec<Index> = tables.into_iter().flat_map(|table| table.indexes).collect();
            doctor::indexes(&expected, &found, &broken)
        }
        Err(error) => Check::unseen("indexes", &error, NEEDS_OWNER),
    }
}

async fn found_indexes(looker: &mut Looker) -> Result<(Vec<Index>, Vec<String>)> {
    let mut found = Vec::new();
    for row in looker.rows("indexes", Vec::new()).await? {
        let shape = shape(get::<i64>(&row, "is_plain")? == 0, &text(&row, "names"));
        found.push(Index { name: text(&row, "name"), table: text(&row, "table_name"), shape });
    }
    let hidden = match looker.engine {
        Engine::Mariadb => "hidden_on_mariadb",
        _ => "hidden_on_mysql",
    };
    let hidden = looker.rows(hidden, Vec::new()).await?;
    let broken =
        hidden.iter().map(|row| format!("{} on {} (hidden)", text(row, "name"), text(row, "table_name")));
    Ok((found, broken.collect()))
}

pub(super) async fn grants(looker: &mut Looker, routines: &Result<Vec<Row>>) -> Check {
    let rows = match looker.rows("rights", Vec::new()).await {
        Ok(rows) => rows,
        Err(error) => return Check::unseen("grants", &error, NEEDS_MYSQL),
    };
    let owners: Vec<String> =
        routines.as_deref().unwrap_or_default().iter().map(|row| text(row, "definer")).collect();
    let prefix = format!("{}_", looker.target.schema_name());
    let (mut found, mut exposed) = (Vec::new(), Vec::new());
    for row in &rows {
        let (holder, object) = (text(row, "holder"), text(row, "object"));
        match (text(row, "what").as_str(), holder.strip_prefix(&prefix)) {
            ("routine", Some(role)) => found.push(Right { routine: object, role: role.to_owned() }),
            ("routine", None) => {}
            _ if owners.contains(&holder) => {}
            (what, _) => exposed.push(format!("{holder} holds rights on the {what} {object}")),
        }
    }
    doctor::grants(&expected_rights(files::GRANTS), &found, &exposed)
}

pub(super) fn login(schema: &str, facts: &Row, roles: &[Row], routines: &Result<Vec<Row>>) -> Check {
    let prefix = format!("{schema}_");
    let roles = roles.iter().map(|row| text(row, "role"));
    let roles: Vec<String> = roles.filter_map(|role| role.strip_prefix(&prefix).map(str::to_owned)).collect();
    let is_owner = routines.as_ref().is_ok_and(|routines| sees_bodies(routines));
    doctor::login(&text(facts, "login"), &roles, is_owner)
}

/// The mode that each procedure keeps, and the mode in which its arguments are taken, which is the caller's.
pub(super) fn sql_mode(settings: &Pairs, routines: &[Row]) -> Check {
    let is_strict =
        |mode: &str| mode.split(',').any(|word| matches!(word, "STRICT_ALL_TABLES" | "STRICT_TRANS_TABLES"));
    let lax = routines.iter().filter(|row| !is_strict(&text(row, "mode")));
    let lax: Vec<String> = lax.map(|row| text(row, "name")).collect();
    if !lax.is_empty() {
        let found = format!("procedures that were made without strict mode: {}", named(&lax));
        return Check::critical(
            "sql_mode",
            found,
            "make them again from `turno migrate --print`, which sets the mode first",
        );
    }
    let mode = settings.iter().find(|(name, _)| name == "sql_mode").map_or("", |(_, mode)| mode.as_str());
    if !is_strict(mode) {
        let found = format!("the procedures are strict, and the default of sessions is not: {mode:?}");
        let action = "add STRICT_TRANS_TABLES to sql_mode: arguments that are too long are cut before a procedure sees them";
        return Check::warning("sql_mode", found, action);
    }
    Check::ok("sql_mode", "the procedures and the default of sessions are strict")
}

pub(super) async fn definer(looker: &mut Looker, routines: &Result<Vec<Row>>) -> Check {
    let mut definers: Vec<String> =
        routines.as_deref().unwrap_or_default().iter().map(|row| text(row, "definer")).collect();
    definers.sort();
    definers.dedup();
    for definer in &definers {
        let count = looker.rows("definer", vec![definer.as_str().into()]).await;
        match count.and_then(|rows| rows.first().map_or(Ok(0), |row| get::<i64>(row, "n"))) {
            Ok(1..) => {}
            Ok(_) => {
                let found = format!("procedures belong to {definer}, an account that does not exist");
                let action = "make the account again with rights on the schema, or run `turno migrate --print` as another owner";
                return Check::critical("definer", found, action);
            }
            Err(error) => return Check::unseen("definer", &error, NEEDS_MYSQL),
        }
    }
    if definers.len() > 1 {
        let found = format!("the procedures belong to several accounts: {}", named(&definers));
        let action = "let one account own them all: run what `turno migrate --print` shows as that account";
        return Check::warning("definer", found, action);
    }
    Check::ok("definer", format!("the procedures belong to {}", named(&definers)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_in_which_servers_show_a_text_are_known() {
        let forms = as_stored("SELECT 'it''s', '' FOR UPDATE /*!80000 OF j */ SKIP LOCKED");
        for shown in
            ["SELECT 'it''s', '' FOR UPDATE  SKIP LOCKED", "SELECT 'it's', '' FOR UPDATE  OF j  SKIP LOCKED"]
        {
            assert!(forms.iter().any(|form| same_statement(form, shown)), "{shown}: {forms:?}");
        }
        let tables = expected_tables("jobs");
        let job = tables.iter().find(|table| table.name == "job").expect("the hot table");
        assert!(
            job.columns.contains(&"rank".to_owned()) && job.constraints.contains(&"job_state".to_owned())
        );
        assert!(job.indexes.iter().any(|index| index.shape == "queue,state,place,id"), "{:?}", job.indexes);
    }
}
