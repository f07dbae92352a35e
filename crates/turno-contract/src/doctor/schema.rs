//! What stands in the database against what this program would install: routines, indexes, rights. It refuses to know how an
//! engine stores them; a backend reads both sides and gives them in the same shape.

use super::{Check, CheckStatus, named};

/// How one object differs from what this program would install.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// It is not there.
    Missing(String),
    /// It is another one.
    Changed(String),
    /// It does not belong there.
    Stray(String),
}

/// Compares objects by name and text. `what` is their kind in words, such as `routine`.
pub fn difference<'a>(
    what: &str,
    expected: &[(&str, String)],
    found: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Vec<Difference> {
    let found: Vec<(&str, &str)> = found.into_iter().collect();
    let mut differences = Vec::new();
    for (name, text) in expected {
        let same_name: Vec<&str> =
            found.iter().filter(|(other, _)| other == name).map(|(_, text)| *text).collect();
        match same_name[..] {
            [] => differences.push(Difference::Missing(format!("{what} {name}"))),
            [only] if same_statement(only, text) => {}
            [_] => differences.push(Difference::Changed(format!("{what} {name}"))),
            _ => differences.push(Difference::Stray(format!("a second {what} {name} with other parameters"))),
        }
    }
    let stray = found.iter().filter(|(name, _)| !expected.iter().any(|(known, _)| known == name));
    differences.extend(stray.map(|(name, _)| Difference::Stray(format!("{what} {name}"))));
    differences
}

/// What cannot be compared because the schema is of a newer release, which may work together with this program; nothing if
/// it is not.
pub fn of_newer_release(version: i64, ours: i64) -> Vec<Check> {
    let found = format!("the schema has version {version}, and this program knows {ours}");
    let unknown = |id| Check::unknown(id, found.clone(), "run the doctor of the newer release");
    if version > ours { ["drift", "indexes", "grants"].map(unknown).into() } else { Vec::new() }
}

/// Whether what is stored is what this program would install.
pub fn drift(differences: &[Difference], looked_at: usize) -> Check {
    let (mut missing, mut changed, mut stray) = (Vec::new(), Vec::new(), Vec::new());
    for difference in differences {
        match difference {
            Difference::Missing(name) => missing.push(name.clone()),
            Difference::Changed(name) => changed.push(name.clone()),
            Difference::Stray(name) => stray.push(name.clone()),
        }
    }
    if differences.is_empty() {
        return Check::ok("drift", format!("{looked_at} objects are as this program would install them"));
    }
    let parts = [("missing", &missing), ("changed", &changed), ("not of turno", &stray)];
    let parts = parts.iter().filter(|(_, names)| !names.is_empty());
    let found = parts.map(|(word, names)| format!("{word}: {}", named(names))).collect::<Vec<_>>().join("; ");
    let status = if missing.is_empty() { CheckStatus::Warning } else { CheckStatus::Critical };
    let action = "if another release of turno is installed, run `turno migrate` of the one that you use. If somebody changed it by \
                  hand: compare with `turno sql NAME` or `turno migrate --print`, and run that text again";
    Check::bad("drift", status, found, action)
}

/// Whether two texts are the same statement: comments and white space outside of strings do not count.
pub fn same_statement(a: &str, b: &str) -> bool {
    significant(a) == significant(b)
}

fn significant(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut quote, mut gap) = (None, false);
    let mut chars = text.trim().trim_end_matches(';').trim_end().chars().peekable();
    while let Some(c) = chars.next() {
        match quote {
            Some(open) => {
                out.push(c);
                if c == open {
                    quote = None;
                }
                continue;
            }
            None if c == '-' && chars.peek() == Some(&'-') => {
                chars.by_ref().find(|c| *c == '\n');
                gap = true;
                continue;
            }
            None if c.is_whitespace() => {
                gap = true;
                continue;
            }
            None => {}
        }
        if gap && !out.is_empty() {
            out.push(' ');
        }
        gap = false;
        if matches!(c, '\'' | '"' | '`') {
            quote = Some(c);
        }
        out.push(c);
    }
    out
}

/// The statement of this name in a file whose statements follow lines `-- statement: name`. Panics if there is none: the
/// names are constants beside the file.
pub fn statement(file: &'static str, name: &str) -> &'static str {
    let parts = file.split("-- statement: ").skip(1);
    let mut named = parts.filter_map(|part| part.split_once('\n'));
    let (_, text) =
        named.find(|(found, _)| found.trim() == name).unwrap_or_else(|| panic!("no statement {name}"));
    text.trim().trim_end_matches(';')
}

/// One index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// Its name.
    pub name: String,
    /// Its table, without the schema.
    pub table: String,
    /// What it is made of, as one text that both sides write in the same way.
    pub shape: String,
}

/// Whether every index is there, is what it should be, and can be used. `broken` names those that are not usable.
pub fn indexes(expected: &[Index], found: &[Index], broken: &[String]) -> Check {
    let (mut missing, mut changed) = (Vec::new(), Vec::new());
    for index in expected {
        match found.iter().find(|other| other.name == index.name && other.table == index.table) {
            None => missing.push(format!("{} on {}", index.name, index.table)),
            Some(other) if other.shape == index.shape => {}
            Some(other) => {
                changed.push(format!("{} is ({}), not ({})", index.name, other.shape, index.shape));
            }
        }
    }
    if missing.is_empty() && changed.is_empty() && broken.is_empty() {
        return Check::ok("indexes", format!("{} indexes are there", expected.len()));
    }
    let parts = [("missing", &missing), ("another one", &changed), ("not usable", &broken.to_vec())];
    let parts = parts.iter().filter(|(_, names)| !names.is_empty());
    let found = parts.map(|(word, names)| format!("{word}: {}", named(names))).collect::<Vec<_>>().join("; ");
    let action = "make it again as `turno migrate --print` shows it; drop one that is not usable first. On a large table use the \
                  engine's online way (CREATE INDEX CONCURRENTLY, ALGORITHM=INPLACE, ONLINE = ON)";
    Check::critical("indexes", found, action)
}

/// The right of a role, without the installation's name before it, to call a routine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Right {
    /// The routine.
    pub routine: String,
    /// The role, or whoever else holds it.
    pub role: String,
}

/// What the lines of `grants.txt` say.
pub fn expected_rights(grants: &str) -> Vec<Right> {
    let lines = grants.lines().filter(|line| !line.starts_with('#'));
    let of_line = |line: &str| {
        let mut words = line.split_whitespace().map(str::to_owned);
        let routine = words.next();
        let rights = words.map(move |role| Right { routine: routine.clone().unwrap_or_default(), role });
        rights.collect::<Vec<_>>()
    };
    lines.flat_map(of_line).collect()
}

/// Whether the roles hold the rights that they should, and no more. `exposed` names tables and routines that are granted to
/// whom they never should be.
pub fn grants(expected: &[Right], found: &[Right], exposed: &[String]) -> Check {
    let text = |right: &Right| format!("{} may not call {}", right.role, right.routine);
    let missing: Vec<String> = expected.iter().filter(|right| !found.contains(right)).map(text).collect();
    let ours = |role: &str| expected.iter().any(|right| right.role == role);
    let surplus = found.iter().filter(|right| ours(&right.role) && !expected.contains(right));
    let mut more: Vec<String> =
        surplus.map(|right| format!("{} may call {}", right.role, right.routine)).collect();
    more.extend(exposed.iter().cloned());
    let action = "run `turno migrate` as the owner: it grants and revokes everything anew";
    if !missing.is_empty() {
        return Check::critical("grants", format!("rights are missing: {}", named(&missing)), action);
    }
    if !more.is_empty() {
        let action = format!("revoke them, if nobody meant to give them; for roles of turno {action}");
        return Check::warning("grants", format!("rights beyond what turno gives: {}", named(&more)), action);
    }
    Check::ok("grants", format!("{} rights are as they should be", expected.len()))
}

/// What this login may do, by the roles that it is a member of.
pub fn login(name: &str, roles: &[String], is_owner: bool) -> Check {
    if is_owner {
        return Check::ok(
            "login",
            format!("{name} owns the schema, or is an administrator, and may do everything"),
        );
    }
    if roles.is_empty() {
        let action =
            "make it a member of the roles that it needs: producer, worker, scheduler, operator or viewer";
        return Check::critical("login", format!("{name} is a member of no role of turno"), action);
    }
    Check::ok("login", format!("{name} is a member of {}", roles.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_white_space_are_no_difference_and_strings_are() {
        assert!(same_statement("SELECT 1 -- one\n  FROM t;", "SELECT 1\nFROM t"));
        assert!(!same_statement("SELECT 'a  b'", "SELECT 'a b'"));
        assert!(!same_statement("SELECT '--x'", "SELECT '--y'"));
        assert!(!same_statement("a > 1", "a >= 1"));
    }

    #[test]
    fn each_way_to_differ_is_told_apart() {
        let expected =
            [("a", "x".to_owned()), ("b", "y".to_owned()), ("c", "z".to_owned()), ("d", "w".into())];
        let found = [("a", "x"), ("b", "other"), ("e", "?"), ("d", "w"), ("d", "w2")];
        let differences = difference("routine", &expected, found);
        assert_eq!(
            differences,
            [
                Difference::Changed("routine b".into()),
                Difference::Missing("routine c".into()),
                Difference::Stray("a second routine d with other parameters".into()),
                Difference::Stray("routine e".into()),
            ]
        );
        assert_eq!(drift(&differences, 4).status, CheckStatus::Critical);
        assert_eq!(drift(&differences[..1], 4).status, CheckStatus::Warning);
        assert_eq!(drift(&[], 4).status, CheckStatus::Ok);
    }

    #[test]
    fn rights_can_be_missing_and_can_be_too_many() {
        let expected = expected_rights("# comment\nclaim   worker\nstats   worker viewer\n");
        assert_eq!(expected.len(), 3);
        assert_eq!(grants(&expected, &expected, &[]).status, CheckStatus::Ok);
        assert_eq!(grants(&expected, &expected[1..], &[]).status, CheckStatus::Critical);
        let mut more = expected.clone();
        more.push(Right { routine: "claim".into(), role: "viewer".into() });
        assert_eq!(grants(&expected, &more, &[]).status, CheckStatus::Warning);
        assert_eq!(grants(&expected, &expected, &["table job to web".into()]).status, CheckStatus::Warning);
    }
}
