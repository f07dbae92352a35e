//! What one version of turno brings to a database, and what of it a database still lacks: the part of `migrate` that is
//! the same on engines with routines. It refuses to run anything, and to know any SQL.
//!
//! A schema file whose name ends in `_online` is one index, named like the file without number and ending. It is built
//! while everybody works, outside of a transaction; every other file only adds what older programs do not see.

use sha2::{Digest, Sha256};

use crate::{Error, ErrorKind, MigrateReport, Result};

/// One SQL file: its name without folder and ending, and its text.
pub type File = (&'static str, &'static str);

/// The schema of a release that is still to come. It exists for the test of upgrades, which makes a newer program of it;
/// nothing else may.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct Ahead {
    /// Schema files after those of this release.
    pub schema: &'static [File],
    /// Routines beside or in place of those of this release.
    pub routines: &'static [File],
    /// Lines of grants beside those of this release.
    pub grants: &'static str,
    /// Called before each step of a migration with its name, so that one can be killed there.
    pub step: fn(&str),
}

/// The files of one release.
#[derive(Debug, Clone)]
pub struct SchemaFiles {
    /// The schema's version, which is the number of its schema files.
    pub version: i64,
    schema: Vec<File>,
    routines: Vec<File>,
    grants: Vec<&'static str>,
    ahead: Option<Ahead>,
}

/// What a database lacks of a release.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Schema files, in order.
    pub schema: Vec<File>,
    /// Routines that are missing or have another text.
    pub routines: Vec<File>,
}

/// Files of a plan that are run together, or the one that is run alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Schema files that may stand in one transaction.
    Together(Vec<File>),
    /// An index that is built while everybody works.
    Online(File),
}

impl SchemaFiles {
    /// From the files of a backend: schema files, then routines, those that others call first.
    pub fn new(schema: &[File], routines: [&[File]; 2], grants: &'static str, ahead: Option<Ahead>) -> Self {
        let mut files = SchemaFiles {
            version: 0,
            schema: schema.to_vec(),
            routines: routines.concat(),
            grants: grants.lines().collect(),
            ahead,
        };
        if let Some(ahead) = ahead {
            files.schema.extend(ahead.schema);
            files.routines.retain(|(name, _)| ahead.routines.iter().all(|(newer, _)| newer != name));
            files.routines.extend(ahead.routines);
            files.grants.extend(ahead.grants.lines());
        }
        files.version = files.schema.len() as i64;
        files
    }

    /// Whether this program may use a schema. Errors with `VersionMismatch`.
    pub fn check_version(&self, version: i64, oldest_binary: i64) -> Result<()> {
        let ours = self.version;
        if version < ours {
            return Err(mismatch(format!(
                "the schema has version {version}, older than this binary's {ours}: run turno migrate"
            )));
        }
        if ours < oldest_binary {
            return Err(mismatch(format!(
                "the schema has version {version} and needs a binary of version {oldest_binary} or newer; this one is of version {ours}"
            )));
        }
        Ok(())
    }

    /// What a database with these files (name and checksum) lacks.
    ///
    /// Errors with `VersionMismatch` if the schema is newer than this program, or if a schema file was applied with another text.
    pub fn plan(&self, version_before: Option<i64>, installed: &[(String, String)]) -> Result<Plan> {
        if let Some(version) = version_before
            && version > self.version
        {
            return Err(mismatch(format!(
                "the schema has version {version}, newer than this binary's {}: migrate with the newer program",
                self.version
            )));
        }
        let checksum_of =
            |name: &str| installed.iter().find(|(known, _)| known == name).map(|(_, sum)| sum.as_str());
        let mut schema = Vec::new();
        for file in &self.schema {
            match checksum_of(&schema_name(file)) {
                None => schema.push(*file),
                Some(sum) if sum == checksum(file.1) => {}
                Some(_) => {
                    return Err(mismatch(format!(
                        "schema file {} was changed after it had been applied",
                        file.0
                    )));
                }
            }
        }
        let changed = |file: &&File| checksum_of(file.0) != Some(checksum(file.1).as_str());
        Ok(Plan { schema, routines: self.routines.iter().filter(changed).copied().collect() })
    }

    /// The schema files.
    pub fn schema(&self) -> &[File] {
        &self.schema
    }

    /// The routines, those that others call first.
    pub fn routines(&self) -> &[File] {
        &self.routines
    }

    /// Each routine that anybody may call, with the roles that may.
    pub fn grants(&self) -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
        self.grants.iter().filter(|line| !line.starts_with('#')).filter_map(|line| {
            let mut words = line.split_whitespace();
            words.next().map(|routine| (routine, words.collect()))
        })
    }

    /// A step of a migration begins. It only matters to the test that kills one there.
    pub fn step(&self, name: &str) {
        if let Some(ahead) = &self.ahead {
            (ahead.step)(name);
        }
    }
}

impl Plan {
    /// The schema files as they are run: what stands between two indexes in one piece, each index alone.
    pub fn parts(&self) -> Vec<Part> {
        let mut parts = Vec::new();
        for file in &self.schema {
            match (is_online(file), parts.last_mut()) {
                (true, _) => parts.push(Part::Online(*file)),
                (false, Some(Part::Together(files))) => files.push(*file),
                (false, _) => parts.push(Part::Together(vec![*file])),
            }
        }
        parts
    }

    /// What `migrate` answers.
    pub fn report(&self, version_before: Option<i64>, files: &SchemaFiles) -> MigrateReport {
        MigrateReport {
            version_before,
            version: files.version,
            applied: self.schema.iter().map(schema_name).collect(),
            operations: self.routines.iter().map(|(name, _)| (*name).to_owned()).collect(),
        }
    }
}

/// The name under which a schema file is recorded.
pub fn schema_name(file: &File) -> String {
    format!("schema/{}", file.0)
}

/// The checksum under which a text is recorded.
pub fn checksum(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether the file is an index that is built while everybody works.
pub fn is_online(file: &File) -> bool {
    file.0.ends_with("_online")
}

/// The index of such a file.
pub fn index_name(file: &File) -> &'static str {
    let name = file.0.strip_suffix("_online").unwrap_or(file.0);
    name.split_once('_').map_or(name, |(_, index)| index)
}

fn mismatch(message: String) -> Error {
    Error::new(ErrorKind::VersionMismatch, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &[File] = &[("0001_initial", "a")];
    const AHEAD: Ahead = Ahead {
        schema: &[("0002_note", "b"), ("0003_note_index_online", "c"), ("0004_more", "d"), ("0005_end", "e")],
        routines: &[("claim", "new"), ("enqueue_v2", "v2")],
        grants: "enqueue_v2 producer",
        step: |_| (),
    };

    fn files(ahead: Option<Ahead>) -> SchemaFiles {
        SchemaFiles::new(SCHEMA, [&[("part", "p")], &[("claim", "old")]], "# who\nclaim worker\n", ahead)
    }

    #[test]
    fn a_plan_is_what_is_missing_or_changed() {
        let installed =
            [("schema/0001_initial".to_owned(), checksum("a")), ("part".to_owned(), checksum("p"))];
        let plan = files(Some(AHEAD)).plan(Some(1), &installed).unwrap();
        assert_eq!(plan.routines, [("claim", "new"), ("enqueue_v2", "v2")]);
        let [together, online, rest] = &plan.parts()[..] else { panic!("{plan:?}") };
        assert_eq!(*together, Part::Together(vec![("0002_note", "b")]));
        assert_eq!(*online, Part::Online(("0003_note_index_online", "c")));
        assert_eq!(*rest, Part::Together(vec![("0004_more", "d"), ("0005_end", "e")]));
        assert_eq!(index_name(&("0003_note_index_online", "c")), "note_index");
        let grants: Vec<_> = files(Some(AHEAD)).grants().collect();
        assert_eq!(grants, [("claim", vec!["worker"]), ("enqueue_v2", vec!["producer"])]);
    }

    #[test]
    fn another_text_of_a_schema_file_and_a_newer_schema_are_refused() {
        let edited = [("schema/0001_initial".to_owned(), checksum("x"))];
        let error = files(None).plan(Some(1), &edited).unwrap_err();
        assert!(error.message().contains("0001_initial was changed"), "{error}");
        let error = files(None).plan(Some(2), &[]).unwrap_err();
        assert!(error.message().contains("newer than this binary's 1"), "{error}");
    }

    #[test]
    fn a_newer_schema_is_used_unless_it_demands_a_newer_binary() {
        files(None).check_version(7, 1).unwrap();
        let error = files(None).check_version(7, 2).unwrap_err();
        assert!(error.message().contains("needs a binary of version 2 or newer"), "{error}");
        let error = files(Some(AHEAD)).check_version(1, 1).unwrap_err();
        assert!(error.message().contains("run turno migrate"), "{error}");
        assert_eq!(error.kind(), ErrorKind::VersionMismatch);
    }

    #[test]
    fn a_checksum_is_that_of_the_text_as_it_is_in_the_file() {
        assert_eq!(checksum(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
