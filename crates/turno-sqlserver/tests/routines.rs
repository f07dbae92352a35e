//! What no parser sees in the T-SQL: that calls between routines pass what is wanted, and that every operation sets what it
//! relies on. These tests read files and need no server.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use regex::Regex;

/// What a routine takes: its parameters in order, and whether each has a default.
struct Routine {
    text: String,
    is_function: bool,
    parameters: Vec<(String, bool)>,
}

fn regex(expression: &str) -> Regex {
    Regex::new(expression).expect("an expression")
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn routines(folders: &[&str]) -> BTreeMap<String, Routine> {
    let mut found = BTreeMap::new();
    let head = regex(r"(?s)CREATE OR ALTER (PROCEDURE|FUNCTION) turno\.(\w+)(.*?)\n?(?:RETURNS|AS\n)");
    let parameter = regex(r"@(\w+) [^@]*");
    for folder in folders {
        for entry in fs::read_dir(root().join("sql").join(folder)).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).expect("a text");
            let code: String = text
                .lines()
                .filter(|line| !line.trim_start().starts_with("--"))
                .map(|line| format!("{line}\n"))
                .collect();
            let head = head.captures(&code).unwrap_or_else(|| panic!("{name}: no CREATE OR ALTER"));
            assert_eq!(&head[2], name, "a file is named for its routine");
            let parameters = parameter.captures_iter(&head[3]);
            let parameters =
                parameters.map(|found| (found[1].to_owned(), found[0].contains(" = "))).collect();
            let is_function = &head[1] == "FUNCTION";
            found.insert(name, Routine { text: code, is_function, parameters });
        }
    }
    found
}

/// How many arguments stand in a list, up to the end of its statement or bracket.
fn arguments(list: &str) -> usize {
    let (mut depth, mut quoted, mut count) = (0, false, 1);
    for c in list.chars() {
        match c {
            '\'' => quoted = !quoted,
            _ if quoted => {}
            '(' => depth += 1,
            ')' if depth == 0 => break,
            ')' => depth -= 1,
            ';' if depth == 0 => break,
            ',' if depth == 0 => count += 1,
            _ => {}
        }
    }
    if list.trim_start().starts_with([';', ')']) { 0 } else { count }
}

#[test]
fn every_call_passes_what_its_routine_takes() {
    let all = routines(&["internal", "operations"]);
    let (calls, uses) = (regex(r"EXEC turno\.(\w+)"), regex(r"turno\.(\w+)\("));
    let mut checked = 0;
    for (caller, routine) in &all {
        let (_, body) = routine.text.split_once("\nAS\n").unwrap_or_else(|| panic!("{caller}: no AS"));
        for found in calls.captures_iter(body) {
            let callee = &all[&found[1]];
            assert!(!callee.is_function, "{caller} executes the function {}", &found[1]);
            let (given, most) =
                (arguments(&body[found.get(0).expect("a match").end()..]), callee.parameters.len());
            let least = callee.parameters.iter().filter(|(_, has_default)| !has_default).count();
            assert!((least..=most).contains(&given), "{caller} calls {} with {given} arguments", &found[1]);
            checked += 1;
        }
        for found in uses.captures_iter(body) {
            let callee = &all[&found[1]];
            assert!(callee.is_function, "{caller} uses the procedure {}", &found[1]);
            let given = arguments(&body[found.get(0).expect("a match").end()..]);
            assert_eq!(given, callee.parameters.len(), "{caller} calls {}", &found[1]);
            checked += 1;
        }
    }
    assert!(checked > 150, "only {checked} calls were found");
}

#[test]
fn outputs_are_passed_as_outputs() {
    let all = routines(&["internal", "operations"]);
    let call = regex(r"(?s)EXEC turno\.(\w+)([^;]*);");
    for (caller, routine) in &all {
        for found in call.captures_iter(&routine.text) {
            let wanted =
                all[&found[1]].text.split("\nAS\n").next().expect("a head").matches(" OUTPUT").count();
            let given = found[2].matches(" OUTPUT").count();
            assert_eq!(given, wanted, "{caller} calls {}", &found[1]);
        }
    }
}

#[test]
fn every_operation_sets_what_filtered_indexes_and_errors_need() {
    for (name, routine) in routines(&["operations"]) {
        let body = routine.text.split("\nBEGIN\n").nth(1).unwrap_or_else(|| panic!("{name}: no body"));
        let settings = "    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;\n    SET NUMERIC_ROUNDABORT OFF;\n";
        assert!(body.starts_with(settings), "{name} begins otherwise");
    }
}

/// Rules C10, E1, S5: who owns a transaction refuses the caller's, everybody else asks whether it can be joined, and both
/// read at READ COMMITTED.
#[test]
fn every_operation_asks_about_the_callers_transaction_before_it_touches_a_row() {
    let all = routines(&["internal", "operations"]);
    let shared = regex(r"\bEXEC turno\.(enqueue_single|enqueue_rows|settle_single|settle_many)\b");
    let touches = regex(
        r"\b(FROM|UPDATE|INTO|JOIN) turno\.(unfinished_job|finished_job|queue|attempt|enqueue_key|refused_result|schedule|schedule_run)\b",
    );
    for name in routines(&["operations"]).keys().filter(|name| *name != "wait") {
        let own = ["claim", "reap", "promote", "prune", "rerank"].contains(&name.as_str());
        let text = &all[name].text;
        // The rows of most writers are touched by a routine that they share.
        let body = shared.captures(text).map_or(text, |found| &all[&found[1]].text);
        let asks = body.find(if own { "EXEC turno.own_check" } else { "EXEC turno.join_check" });
        let asks = asks.unwrap_or_else(|| panic!("{name} does not ask"));
        let level = body
            .find("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
            .unwrap_or_else(|| panic!("{name}: no level"));
        assert!(asks < level, "{name} must see the caller's level, not its own");
        if let Some(touch) = touches.find(body) {
            assert!(level < touch.start(), "{name} touches a row first");
        }
        assert_eq!(own, body.contains("SET IMPLICIT_TRANSACTIONS OFF"), "{name}");
    }
}

/// Rules C2, H2: what may not wait skips, and skips rows and not pages.
#[test]
fn readpast_stands_with_what_it_needs() {
    let hints = regex(r"WITH \(([^()]*READPAST[^()]*)");
    let mut found = 0;
    for (name, routine) in routines(&["internal", "operations"]) {
        for hint in hints.captures_iter(&routine.text) {
            assert!(hint[1].contains("READCOMMITTEDLOCK"), "{name}: {}", &hint[1]);
            if hint[1].contains("UPDLOCK") {
                assert!(hint[1].contains("ROWLOCK"), "{name}: {}", &hint[1]);
            }
            found += 1;
        }
    }
    assert!(found > 15, "only {found} were found");
    let claim = &routines(&["internal"])["claim_take"].text;
    assert!(
        claim.contains("WITH (UPDLOCK, READPAST, READCOMMITTEDLOCK, ROWLOCK, INDEX(job_ready), FORCESEEK)")
    );
}

/// A filtered index is only used where its filter stands in the statement in so many words.
#[test]
fn a_filtered_index_is_asked_for_with_its_filter() {
    let filters = [
        ("job_ready", "state = 'ready'"),
        ("job_due", "state = 'scheduled'"),
        ("job_lease", "state = 'running'"),
        ("job_token", "state = 'running'"),
        ("job_unique", "unique_key IS NOT NULL"),
        ("finished_job_trouble", "outcome IN ('dead', 'cancelled')"),
        ("schedule_due", "paused_at IS NULL"),
    ];
    for (name, routine) in routines(&["internal", "operations"]) {
        for (index, filter) in filters {
            for (at, _) in routine.text.match_indices(&format!("INDEX({index})")) {
                let rest = &routine.text[at..routine.text.len().min(at + 500)];
                assert!(rest.contains(filter), "{name}: {index} without {filter}");
            }
        }
    }
}

/// What the crate's one-line calls pass must be what the operations take.
#[test]
fn every_call_from_rust_passes_what_its_operation_takes() {
    let all = routines(&["operations"]);
    let call = regex(r#""EXEC turno\.(\w+)([^"]*)""#);
    let mut called = BTreeMap::new();
    let files =
        fs::read_dir(root().join("src")).expect("a folder").map(|entry| entry.expect("an entry").path());
    for file in files.filter(|path| path.is_file()) {
        let text = fs::read_to_string(file).expect("a text");
        for found in call.captures_iter(&text) {
            let given = found[2].matches("@P").count();
            let expected: Vec<String> = (1..=given).map(|n| format!("@P{n}")).collect();
            assert_eq!(found[2].trim(), expected.join(", "), "{}", &found[1]);
            let operation = all.get(&found[1]).unwrap_or_else(|| panic!("there is no {}", &found[1]));
            assert_eq!(given, operation.parameters.len(), "the call of {}", &found[1]);
            called.insert(found[1].to_owned(), given);
        }
    }
    // The rest is there for other languages.
    let open: Vec<&String> = all.keys().filter(|name| !called.contains_key(*name)).collect();
    assert_eq!(open, ["wait"], "operations that this crate never calls");
}
