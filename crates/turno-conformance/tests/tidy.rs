//! Tidy: holds the files of this repository to what its documents say about them.
//!
//! Each test reads files and names every place that breaks its promise. It refuses to know exceptions: a limit that
//! one file may break is no limit.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;
use sha2::{Digest, Sha256};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

const RUST_FILE_LINES_MAX: usize = 600;
const RUST_FUNCTION_LINES_MAX: usize = 70;
const SQL_ROUTINE_LINES_MAX: usize = 60;
const README_LINES_MAX: usize = 200;
const KNOWN_FAULTS: usize = 45;

/// Crates that hold one engine each, as they come to exist.
const BACKENDS: [&str; 4] = ["turno-sqlite", "turno-postgres", "turno-mysql", "turno-sqlserver"];
/// Crates that speak to databases through the trait `Backend` only.
const ENGINE_FREE: [&str; 4] = ["turno-contract", "turno-conformance", "turno", "turno-cli"];
const DRIVERS: [&str; 8] = [
    "rusqlite",
    "tokio-postgres",
    "deadpool-postgres",
    "sqlx",
    "mysql_async",
    "tiberius",
    "diesel",
    "sea-orm",
];
/// Routines beside the operations: what the library does itself on engines without routines.
const BESIDE: [&str; 2] = ["rerank", "schema_version"];
const HEADER: [&str; 7] = ["Takes", "Returns", "Raises", "Transaction", "Writes", "Locks", "Rules"];

#[test]
fn every_backend_has_the_same_operations() {
    let operations = operations();
    let variant = regex("_(many|prioritized)");
    let mut faults = Vec::new();
    for backend in backends() {
        let files = stems(&backend.join("sql/operations"));
        let missing = operations.difference(&files);
        faults.extend(missing.map(|operation| format!("{}: no {operation}.sql", show(&backend))));
        let known =
            |file: &str| operations.contains(&*variant.replace_all(file, "")) || BESIDE.contains(&file);
        let stray = files.iter().filter(|file| !known(file));
        faults.extend(stray.map(|file| format!("{}: {file}.sql is no operation", show(&backend))));
    }
    report(faults);
}

#[test]
fn every_sql_file_of_an_operation_has_the_header() {
    let mut faults = Vec::new();
    for path in operation_files() {
        let text = read(&path);
        let header: Vec<&str> = text.lines().take_while(|line| line.starts_with("--")).collect();
        let begins = |line: &str, word: &str| line.trim_start_matches(['-', ' ']).starts_with(word);
        let says =
            |word: &str| header.iter().any(|line| begins(line, word) || line.contains(&format!(" {word}:")));
        let missing = HEADER.iter().filter(|word| !says(word));
        faults.extend(missing.map(|word| format!("{}: no `-- {word}`", show(&path))));
    }
    report(faults);
}

#[test]
fn every_sql_routine_fits_a_screen() {
    let mut faults = Vec::new();
    for path in operation_files() {
        let long = routines(&read(&path)).into_iter().filter(|(_, lines)| *lines > SQL_ROUTINE_LINES_MAX);
        faults.extend(long.map(|(routine, lines)| format!("{}: {routine} has {lines} lines", show(&path))));
    }
    report(faults);
}

/// Rule V8. MySQL and MariaDB read without locks where a statement begins with SELECT, and nowhere else.
#[test]
fn mysql_assigns_and_tests_nothing_that_it_would_have_to_lock() {
    let comment = regex(r"--[^\n]*");
    let ends = regex(r";|\b(THEN|ELSE|BEGIN|DO)\b");
    let locks = regex(
        r"(?s)^\s*(SET|IF|ELSEIF|WHILE|DECLARE\s+\w+\s.*DEFAULT)\b.*\bSELECT\b.*\b(FROM|JOIN)\s+turno\.",
    );
    assert!(locks.is_match("\n  SET v_n = (SELECT COUNT(*) FROM turno.job j)"));
    let mut faults = Vec::new();
    for path in operation_files().iter().filter(|path| show(path).contains("turno-mysql")) {
        let text = read(path);
        let text = comment.replace_all(&text, "");
        let locking = ends.split(&text).filter(|statement| locks.is_match(statement));
        faults.extend(locking.map(|statement| format!("{}: {}", show(path), statement.trim())));
    }
    report(faults);
}

#[test]
fn released_schema_files_are_never_edited() {
    let released = regex(r"(?m)^## \d+\.\d+\.\d+").is_match(&read(&root().join("CHANGELOG.md")));
    let mut faults = Vec::new();
    for backend in backends() {
        let folder = backend.join("sql/schema");
        let record = read(&folder.join("released.txt"));
        if released && record.is_empty() {
            faults.push(format!("{}: released, and scripts/freeze-schema was not run", show(&folder)));
        }
        faults.extend(edited(&record, |name| fs::read(folder.join(name)).unwrap_or_default()));
        let recorded: BTreeSet<&str> =
            record.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
        let present: Vec<String> = files(&folder, "sql").iter().map(|path| show(path)).collect();
        let names = present.iter().filter_map(|path| path.rsplit('/').next());
        let early =
            names.filter(|name| !recorded.contains(name) && recorded.iter().any(|known| *name < *known));
        faults.extend(early.map(|name| format!("{}: {name} comes before a released file", show(&folder))));
    }
    report(faults);
}

#[test]
fn an_edit_of_a_released_schema_file_is_seen() {
    let record = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  0001_initial.sql\n";
    assert_eq!(edited(record, |_| Vec::new()).len(), 0);
    assert_eq!(edited(record, |_| b"-- another line".to_vec()).len(), 1);
}

#[test]
fn rust_sources_hold_no_sql_beyond_one_line_calls() {
    // A backend may name a routine or a statement file in one line; what writes a table belongs in a file.
    let writes =
        regex(r"(?is)\b(insert\s+into\s+\S+\s*(\(|values|select)|delete\s+from\b|update\s+\S+\s+set\b)");
    let reads = regex(r"(?is)\bselect\b.+\bfrom\b");
    let mut faults = Vec::new();
    // What installs the files keeps a list of them, and that cannot be one of the files itself.
    let installs = |path: &Path| path.ends_with("src/migrate.rs");
    let sql_free = ["turno-contract", "turno", "turno-cli"].map(|name| (name, false));
    for (name, may_call) in BACKENDS.map(|name| (name, true)).into_iter().chain(sql_free) {
        for path in rust_files(&root().join("crates").join(name).join("src")) {
            for (line, text) in product_strings(&path) {
                let one_line_call = may_call && !text.trim().contains('\n');
                if (writes.is_match(&text) && !installs(&path)) || (reads.is_match(&text) && !one_line_call) {
                    faults.push(format!("{}:{line}: a statement", show(&path)));
                }
            }
        }
    }
    report(faults);
}

#[test]
fn rust_files_and_functions_keep_their_size() {
    let mut faults = Vec::new();
    for path in rust_files(&root()) {
        let lines = read(&path).lines().count();
        if lines > RUST_FILE_LINES_MAX {
            faults.push(format!("{}: {lines} lines", show(&path)));
        }
        let mut functions = Functions::default();
        functions.visit_file(&parse(&path));
        let long = functions.found.iter().filter(|(_, lines)| *lines > RUST_FUNCTION_LINES_MAX);
        faults.extend(long.map(|(function, lines)| format!("{}: {function} has {lines} lines", show(&path))));
    }
    report(faults);
}

#[test]
fn every_module_says_what_it_is_for() {
    let says = |path: &PathBuf| {
        let text = read(path);
        let first = text.lines().find(|line| !line.is_empty() && !line.starts_with("#!"));
        first.is_some_and(|line| line.starts_with("//!"))
    };
    let silent = rust_files(&root()).into_iter().filter(|path| !says(path));
    report(silent.map(|path| format!("{}: does not begin with `//!`", show(&path))).collect());
}

#[test]
fn every_rule_of_the_contract_is_cited_by_a_test() {
    let cited: BTreeSet<String> = test_texts().iter().flat_map(|text| citations(text)).collect();
    let open = rules().into_iter().filter(|rule| !cited.contains(rule));
    report(open.map(|rule| format!("rule {rule} is cited by no case and no test")).collect());
}

#[test]
fn every_cited_rule_exists() {
    let rules = rules();
    let mut faults = Vec::new();
    for path in operation_files().into_iter().chain(rust_files(&root().join("crates"))) {
        let strange = citations(&read(&path)).into_iter().filter(|rule| !rules.contains(rule));
        faults.extend(strange.map(|rule| format!("{}: cites {rule}, which does not exist", show(&path))));
    }
    report(faults);
}

#[test]
fn known_faults_name_tests_that_exist() {
    let text = read(&root().join("docs/known-faults.md"));
    let row = regex(r"(?m)^\| (B\d\d) \|.*\| (.+) \|$");
    let test = regex(r"`([\w/.-]+\.rs)::(\w+)`");
    let mut faults = Vec::new();
    let mut seen = BTreeSet::new();
    for found in row.captures_iter(&text) {
        let (id, guards) = (&found[1], &found[2]);
        if !seen.insert(id.to_owned()) {
            faults.push(format!("{id} stands there twice"));
        }
        let mut named = 0;
        for found in test.captures_iter(guards) {
            named += 1;
            let path = root().join("crates").join(&found[1]);
            if !path.is_file() || !regex(&format!(r"\bfn {}\b", &found[2])).is_match(&read(&path)) {
                faults.push(format!("{id}: there is no {}", &found[0]));
            }
        }
        if named == 0 && !guards.starts_with("later: ") {
            faults.push(format!("{id}: names no test and does not say `later: ...`"));
        }
    }
    if seen.len() != KNOWN_FAULTS {
        faults.push(format!("docs/known-faults.md has {} entries, not {KNOWN_FAULTS}", seen.len()));
    }
    report(faults);
}

#[test]
fn relative_links_in_documents_resolve() {
    let link = regex(r"\]\(([^)\s]+)\)");
    let mut faults = Vec::new();
    for path in files(&root(), "md") {
        for found in link.captures_iter(&read(&path)) {
            let target = found[1].split('#').next().unwrap_or_default();
            let elsewhere = target.is_empty() || target.contains("://") || target.starts_with("mailto:");
            if !elsewhere && !path.parent().expect("a file has a folder").join(target).exists() {
                faults.push(format!("{}: {} leads nowhere", show(&path), &found[1]));
            }
        }
    }
    report(faults);
}

#[test]
fn the_sql_api_shows_every_routine_in_every_language() {
    let page = read(&root().join("docs/sql-api.md"));
    let mut faults = Vec::new();
    for language in ["sql", "python", "js"] {
        let block = regex(&format!(r"(?s)```{language}\n(.*?)```"));
        let text: String = block.captures_iter(&page).map(|found| found[1].to_owned()).collect();
        let routines = stems(&root().join("crates/turno-postgres/sql/operations"));
        let open =
            routines.iter().filter(|name| !regex(&format!(r#"(turno\.|\("){name}\b"#)).is_match(&text));
        faults.extend(open.map(|name| format!("docs/sql-api.md does not call {name} in {language}")));
    }
    report(faults);
}

#[test]
fn the_operators_page_has_every_check_of_the_doctor() {
    let page = read(&root().join("docs/operating.md"));
    let table: String = page.lines().filter(|line| line.starts_with("| `")).collect();
    let open = turno_contract::doctor::CHECKS.iter().filter(|(id, _)| !table.contains(&format!("`{id}`")));
    report(open.map(|(id, _)| format!("docs/operating.md has no row for the check {id}")).collect());
}

#[test]
fn the_readme_shows_the_documentation_test() {
    let example = regex(r"(?s)```rust\n(.*?)```");
    let readme = read(&root().join("README.md"));
    let shown =
        regex(r"(?s)<!-- example -->(.*)<!-- end of example -->").captures(&readme).expect("two marks");
    let shown = example.captures(&shown[1]).expect("a block between the marks")[1].to_owned();
    let library = read(&root().join("crates/turno/src/lib.rs"));
    let comment = library.lines().filter_map(|line| line.strip_prefix("//!"));
    let text: Vec<&str> = comment.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    let visible: Vec<&str> =
        text.into_iter().filter(|line| *line != "#" && !line.starts_with("# ")).collect();
    assert!(
        visible.join("\n").contains(&shown),
        "the README's example is no example of crates/turno/src/lib.rs"
    );
}

#[test]
fn the_readme_is_short() {
    let lines = read(&root().join("README.md")).lines().count();
    assert!(lines <= README_LINES_MAX, "README.md has {lines} lines");
}

#[test]
fn words_of_other_queues_are_not_used() {
    let words = regex(r"(?i)\b(de-?queue\w*|visibility[ _-]timeout|dead[ _-]letter\w*)\b");
    // These speak about other queues in their words; this file has the list itself.
    let elsewhere = ["docs/comparison.md", "docs/known-faults.md", "crates/turno-conformance/tests/tidy.rs"];
    let mut faults = Vec::new();
    for path in ["rs", "sql", "md"].iter().flat_map(|extension| files(&root(), extension)) {
        if elsewhere.contains(&show(&path).as_str()) {
            continue;
        }
        for (number, line) in (1..).zip(read(&path).lines()) {
            let found = words.find(line);
            faults.extend(found.map(|word| format!("{}:{number}: `{}`", show(&path), word.as_str())));
        }
    }
    report(faults);
}

#[test]
fn only_backends_know_a_driver() {
    let mut faults = Vec::new();
    for name in ENGINE_FREE {
        let manifest = read(&root().join("crates").join(name).join("Cargo.toml"));
        let section = manifest.split("\n[").find(|section| section.starts_with("dependencies]"));
        let names = section.unwrap_or_default().lines().filter_map(|line| line.split(['.', ' ', '=']).next());
        let known = names.filter(|dependency| DRIVERS.contains(dependency));
        faults.extend(known.map(|driver| format!("{name} depends on the driver {driver}")));
    }
    report(faults);
}

/// Fails with all faults, one a line.
fn report(faults: Vec<String>) {
    assert!(faults.is_empty(), "{} faults:\n  {}", faults.len(), faults.join("\n  "));
}

fn regex(expression: &str) -> Regex {
    Regex::new(expression).expect("a valid expression")
}

fn root() -> PathBuf {
    let this = Path::new(env!("CARGO_MANIFEST_DIR"));
    this.ancestors().nth(2).expect("crates/turno-conformance is two folders deep").to_owned()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", show(path)))
}

fn parse(path: &Path) -> syn::File {
    syn::parse_file(&read(path)).unwrap_or_else(|error| panic!("{}: {error}", show(path)))
}

/// The path as a person writes it, from the root of the repository.
fn show(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// Every file below the folder with this extension, without what is built, fetched or hidden.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let ours = |entry: &walkdir::DirEntry| {
        let name = entry.file_name().to_string_lossy();
        entry.depth() == 0 || !(name.starts_with('.') || name == "target" || name == "node_modules")
    };
    let entries = walkdir::WalkDir::new(folder).sort_by_file_name().into_iter().filter_entry(ours);
    let paths = entries.flatten().map(walkdir::DirEntry::into_path);
    paths.filter(|path| path.extension().is_some_and(|found| found == extension)).collect()
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    files(folder, "rs")
}

fn stems(folder: &Path) -> BTreeSet<String> {
    let paths = files(folder, "sql");
    paths.iter().map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned()).collect()
}

fn backends() -> Vec<PathBuf> {
    let all = BACKENDS.map(|name| root().join("crates").join(name));
    let found: Vec<PathBuf> = all.into_iter().filter(|path| path.exists()).collect();
    assert!(found.len() >= 2, "turno-sqlite and turno-postgres are part of the repository");
    found
}

fn operation_files() -> Vec<PathBuf> {
    let folders =
        backends().into_iter().flat_map(|path| ["sql/operations", "sql/internal"].map(|f| path.join(f)));
    let found = folders.filter(|folder| folder.exists()).flat_map(|folder| files(&folder, "sql"));
    found.chain(backends().into_iter().map(|path| path.join("sql/doctor.sql"))).collect()
}

/// Faults of the files in a record of checksums, as `sha256sum` writes it.
fn edited(record: &str, content: impl Fn(&str) -> Vec<u8>) -> Vec<String> {
    let line = |line: &str| {
        let (sum, name) = line.split_once("  ").expect("a line of sha256sum");
        let found: String = Sha256::digest(content(name)).iter().map(|byte| format!("{byte:02x}")).collect();
        (sum != found).then(|| format!("{name}: was released and is edited: add the next number instead"))
    };
    record.lines().filter_map(line).collect()
}

/// Asynchronous methods of the trait `Backend` that are no routines: what installs the others, and what looks at what they
/// stand on, by the statements of `sql/doctor.sql`.
const NO_ROUTINES: [&str; 3] = ["migrate", "doctor", "oldest_transaction"];

/// The operations are the other asynchronous methods of the trait.
fn operations() -> BTreeSet<String> {
    let file = parse(&root().join("crates/turno-contract/src/backend.rs"));
    let methods = file.items.iter().filter_map(|item| match item {
        syn::Item::Trait(item) if item.ident == "Backend" => Some(&item.items),
        _ => None,
    });
    let names = methods.flatten().filter_map(|item| match item {
        syn::TraitItem::Fn(method) if method.sig.asyncness.is_some() => Some(method.sig.ident.to_string()),
        _ => None,
    });
    let found: BTreeSet<String> = names.filter(|name| !NO_ROUTINES.contains(&name.as_str())).collect();
    assert!(found.len() > 20, "the trait Backend was not understood: {found:?}");
    found
}

/// The routines of a file with their lines of code: the whole file, or what follows each `-- statement: name`.
fn routines(text: &str) -> Vec<(String, usize)> {
    let mut found = vec![("the routine".to_owned(), 0)];
    for line in text.lines().map(str::trim) {
        if let Some(statement) = line.strip_prefix("-- statement:") {
            found.push((statement.trim().to_owned(), 0));
        } else if !line.is_empty() && !line.starts_with("--") {
            found.last_mut().expect("never empty").1 += 1;
        }
    }
    found
}

/// The numbers of all rules in `docs/contract.md`.
fn rules() -> BTreeSet<String> {
    let text = read(&root().join("docs/contract.md"));
    let found =
        regex(r"(?m)^- \*\*([A-Z]\d+)\*\*").captures_iter(&text).map(|rule| rule[1].to_owned()).collect();
    assert!(BTreeSet::len(&found) > 50, "docs/contract.md was not understood: {found:?}");
    found
}

/// The line breaks of comments, so that a citation may go on in the next line.
static FOLDS: LazyLock<Regex> = LazyLock::new(|| regex(r"\n\s*(?:///?!?|--)[ \t]*"));
static CITATION: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\b[Rr]ules?:?\s+((?:[A-Z]\d+\b(?:,\s+and\s+|,\s*|\s+and\s+|\.\.)?)+)"));

/// The rules that a text cites, as `rule E4`, `Rules E4, E5 and C1` or `Rules: E4, E5`. A range cites its two ends.
fn citations(text: &str) -> Vec<String> {
    let unfolded = FOLDS.replace_all(text, " ");
    let lists: Vec<String> = CITATION.captures_iter(&unfolded).map(|found| found[1].to_owned()).collect();
    lists.iter().flat_map(|list| list.split(|c: char| !c.is_alphanumeric())).filter_map(rule_number).collect()
}

/// The number, unless it is one of a known fault, which may stand in the same list: `Rules C1, C2, B27`.
fn rule_number(word: &str) -> Option<String> {
    (word.starts_with(|c: char| c.is_ascii_uppercase() && c != 'B') && word[1..].parse::<u8>().is_ok())
        .then(|| word.to_owned())
}

/// The text of every case and test: conformance cases, files under `tests/`, and test modules at the end of sources.
fn test_texts() -> Vec<String> {
    let mut found = Vec::new();
    for path in rust_files(&root().join("crates")) {
        let (shown, text) = (show(&path), read(&path));
        if shown.ends_with("tests/tidy.rs") {
            continue;
        }
        if shown.contains("/tests/") || shown.contains("turno-conformance/src/cases") {
            found.push(text);
        } else if let Some(start) = text.find("#[cfg(test)]") {
            found.push(text[start..].to_owned());
        }
    }
    found
}

/// The strings of a source file outside its test modules and its attributes, with their line numbers.
fn product_strings(path: &Path) -> Vec<(usize, String)> {
    let mut strings = Strings::default();
    strings.visit_file(&parse(path));
    strings.found
}

#[derive(Default)]
struct Functions {
    found: Vec<(String, usize)>,
}

impl Functions {
    fn note(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let lines = block.span().end().line - signature.span().start().line + 1;
        self.found.push((signature.ident.to_string(), lines));
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.note(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.note(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.note(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

#[derive(Default)]
struct Strings {
    found: Vec<(usize, String)>,
}

impl Strings {
    fn note_tokens(&mut self, tokens: proc_macro2::TokenStream) {
        for token in tokens {
            match token {
                proc_macro2::TokenTree::Group(group) => self.note_tokens(group.stream()),
                proc_macro2::TokenTree::Literal(literal) => {
                    if let syn::Lit::Str(text) = syn::Lit::new(literal) {
                        self.visit_lit_str(&text);
                    }
                }
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Strings {
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.ident != "tests" {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.note_tokens(item.tokens.clone());
    }

    fn visit_lit_str(&mut self, text: &'ast syn::LitStr) {
        self.found.push((text.span().start().line, text.value()));
    }
}
