//! What stands in the schema against what the files of this crate would put there. It refuses to parse more of them than their
//! own fixed form.

use tokio_postgres::Row;
use turno_contract::Result;
use turno_contract::doctor::{
    self, Check, Difference, Index, Right, difference, expected_rights, same_statement,
};

use super::Looker;
use crate::files;

/// Routines, columns, constraints and triggers.
pub(super) async fn drift(looker: &Looker) -> Check {
    match differences(looker).await {
        Ok((differences, looked_at)) => doctor::drift(&differences, looked_at),
        Err(error) => Check::unseen("drift", &error, ""),
    }
}

async fn differences(looker: &Looker) -> Result<(Vec<Difference>, usize)> {
    let routines = looker.rows("routines", &[]).await?;
    let expected = expected_routines(&looker.schema);
    let found: Vec<(String, String)> = routines.iter().map(routine_of).collect();
    let pairs = found.iter().map(|(name, text)| (name.as_str(), text.as_str()));
    let mut differences = difference("routine", &expected, pairs);
    let tables = expected_tables(&looker.schema);
    let columns = looker.rows("columns", &[]).await?;
    for table in &tables {
        let found = columns.iter().find(|row| row.get::<_, &str>("table_name") == table.name);
        match found.map(|row| row.get::<_, &str>("columns")) {
            None => differences.push(Difference::Missing(format!("table {}", table.name))),
            Some(columns) if same_statement(columns, &table.columns.join(", ")) => {}
            Some(_) => differences.push(Difference::Changed(format!("the columns of {}", table.name))),
        }
    }
    let constraints = looker.rows("constraints", &[]).await?;
    for (table, name) in tables.iter().flat_map(|t| t.constraints.iter().map(move |name| (&t.name, name))) {
        let found = constraints
            .iter()
            .find(|row| row.get::<_, &str>("table_name") == table && row.get::<_, &str>("name") == name);
        match found.map(|row| row.get::<_, bool>("is_valid")) {
            Some(true) => {}
            Some(false) => differences.push(Difference::Changed(format!("constraint {name} (not valid)"))),
            None => differences.push(Difference::Missing(format!("constraint {name} of {table}"))),
        }
    }
    for row in looker.rows("triggers", &[]).await? {
        let (table, name): (&str, &str) = (row.get("table_name"), row.get("name"));
        differences.push(Difference::Stray(format!("trigger {name} on {table}")));
    }
    let constraints = tables.iter().map(|table| table.constraints.len()).sum::<usize>();
    Ok((differences, expected.len() + tables.len() + constraints))
}

/// A routine as one text: its body, and what runs around it.
fn shape(body: &str, is_definer: bool, settings: &[String]) -> String {
    let rights = if is_definer { "definer" } else { "invoker" };
    format!("{body} @{rights} @{}", settings.join(" @"))
}

fn routine_of(row: &Row) -> (String, String) {
    let settings: Vec<String> = row.get::<_, &str>("settings").lines().map(str::to_owned).collect();
    (row.get("name"), shape(row.get("body"), row.get("is_definer"), &settings))
}

/// The routines of the operations, and those that the schema files make for their tables.
fn expected_routines(schema: &str) -> Vec<(&'static str, String)> {
    let files = files::INTERNAL.iter().chain(files::OPERATIONS).map(|(name, text)| (*name, *text));
    let of_schema = files::SCHEMA.iter().flat_map(|(_, text)| text.split("CREATE FUNCTION turno.").skip(1));
    let of_schema = of_schema.map(|text| (text.split('(').next().unwrap_or(text), text));
    files
        .chain(of_schema)
        .map(|(name, text)| (name, expected_routine(&files::in_schema(text, schema))))
        .collect()
}

fn expected_routine(text: &str) -> String {
    let (head, rest) = text.split_once("AS $$").expect("a body in every text of a routine");
    let body = rest.split_once("$$").expect("an end of the body").0;
    let head = head.split_once("LANGUAGE").map_or("", |(_, head)| head);
    let mut settings: Vec<String> = head
        .split("SET ")
        .skip(1)
        .map(|setting| setting.trim().replacen(" = ", "=", 1).replace('\'', ""))
        .collect();
    settings.sort();
    shape(body, head.contains("SECURITY DEFINER"), &settings)
}

struct Table {
    name: String,
    columns: Vec<String>,
    constraints: Vec<String>,
}

/// The tables of the schema files, which have a column or a constraint on each line that is indented once.
fn expected_tables(schema: &str) -> Vec<Table> {
    let mut tables: Vec<Table> = Vec::new();
    let mut inside = false;
    for line in files::SCHEMA.iter().flat_map(|(_, text)| text.lines()) {
        if let Some(rest) = line.strip_prefix("CREATE TABLE turno.") {
            let name = rest.trim_end_matches(['(', ' ']).replace("turno", schema);
            tables.push(Table { name, columns: Vec::new(), constraints: Vec::new() });
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
        let is_item = line.starts_with("    ") && !line.starts_with("     ") && !line.contains("    --");
        let mut words = line.split_whitespace();
        match (is_item, words.next(), words.next()) {
            (true, Some("CONSTRAINT"), Some(name)) => self.constraints.push(name.to_owned()),
            (true, Some(name), Some(of_type)) => {
                self.columns.push(format!("{name} {}", of_type.trim_end_matches(',')));
            }
            _ => {}
        }
    }
}

pub(super) fn indexes(schema: &str, rows: &[Row]) -> Check {
    let mut broken = Vec::new();
    let found: Vec<Index> = rows
        .iter()
        .map(|row| {
            let (name, table): (String, String) = (row.get("name"), row.get("table_name"));
            if !row.get::<_, bool>("is_usable") {
                broken.push(format!("{name} on {table}"));
            }
            let shape = index_shape(row.get("is_unique"), row.get("columns"), row.get("predicate"));
            Index { name, table, shape }
        })
        .collect();
    doctor::indexes(&expected_indexes(schema), &found, &broken)
}

/// Without what the server writes in its own way: brackets and casts.
fn index_shape(is_unique: bool, columns: &str, predicate: &str) -> String {
    let plain = |text: &str| {
        let text = text.replace("::text", "").replace("::bigint", "").replace(['(', ')'], "");
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let predicate = plain(predicate);
    let unique = if is_unique { "unique: " } else { "" };
    let only = if predicate.is_empty() { String::new() } else { format!(" where {predicate}") };
    format!("{unique}{}{only}", plain(columns))
}

fn expected_indexes(schema: &str) -> Vec<Index> {
    let statements = files::SCHEMA.iter().flat_map(|(_, text)| text.split(";\n"));
    let of_statement = |text: &str| {
        let start = text.find("CREATE UNIQUE INDEX ").or_else(|| text.find("CREATE INDEX "))?;
        let (kind, rest) = text[start..].split_once("INDEX ")?;
        let (name, rest) = rest.trim_start_matches("CONCURRENTLY ").split_once(" ON turno.")?;
        let (table, rest) = rest.split_once(" (")?;
        let (columns, rest) = rest.split_at(end_of_bracket(rest)?);
        let rest = rest.split_once("WHERE ").map_or("", |(_, predicate)| predicate);
        let (name, table) = (name.replace("turno", schema), table.replace("turno", schema));
        Some(Index { name, table, shape: index_shape(kind.contains("UNIQUE"), columns, rest) })
    };
    statements.filter_map(of_statement).collect()
}

/// Where the bracket ends that has begun before this text.
fn end_of_bracket(text: &str) -> Option<usize> {
    let mut depth = 1;
    text.find(|c| {
        depth += match c {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        depth == 0
    })
}

pub(super) fn grants(schema: &str, rows: &[Row]) -> Check {
    let prefix = format!("{schema}_");
    let mut expected = expected_rights(files::GRANTS);
    let roles = ["producer", "worker", "scheduler", "operator", "viewer"];
    expected.extend(roles.map(|role| Right { routine: "anything in the schema".into(), role: role.into() }));
    let (mut found, mut exposed) = (Vec::new(), Vec::new());
    for row in rows {
        let (object, holder): (&str, &str) = (row.get("object"), row.get("holder"));
        match (row.get::<_, &str>("what"), holder.strip_prefix(&prefix)) {
            ("table", _) => exposed.push(format!("{holder} holds rights on the table {object}")),
            ("routine", Some(role)) => found.push(Right { routine: object.into(), role: role.into() }),
            ("routine", None) if holder == "PUBLIC" => exposed.push(format!("everybody may call {object}")),
            ("usage", Some(role)) => {
                found.push(Right { routine: "anything in the schema".into(), role: role.into() });
            }
            _ => {}
        }
    }
    doctor::grants(&expected, &found, &exposed)
}

pub(super) fn login(facts: &Row, rows: &[Row]) -> Check {
    let members = rows.iter().filter(|row| row.get::<_, bool>("is_member"));
    let roles: Vec<String> = members.map(|row| row.get("role")).collect();
    doctor::login(facts.get("login"), &roles, facts.get("is_owner"))
}
