//! A copy of this very program in which a statement that is compiled in reads otherwise. It refuses to change a
//! length: the copy is the same program but for these bytes.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// What is run as supervisor and as worker; removed with this value.
pub struct Program {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Program {
    /// A copy in which every place of `text` reads as `instead`.
    pub fn with(text: &str, instead: &str) -> Self {
        assert_eq!(text.len(), instead.len(), "a statement that is compiled in has its place");
        let itself = env::current_exe().expect("this program has a path");
        let mut bytes = fs::read(&itself).expect("this program can be read");
        let places: Vec<usize> = find_all(&bytes, text.as_bytes());
        assert!(!places.is_empty(), "the text is compiled in");
        for place in places {
            bytes[place..place + instead.len()].copy_from_slice(instead.as_bytes());
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("mutation");
        fs::write(&path, bytes).expect("the copy is written");
        let permissions = fs::metadata(&itself).expect("this program is there").permissions();
        fs::set_permissions(&path, permissions).expect("the copy may be run");
        Program { path, _folder: folder }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn find_all(bytes: &[u8], text: &[u8]) -> Vec<usize> {
    let mut places = Vec::new();
    let mut from = 0;
    let first = text[0];
    while let Some(at) = bytes[from..].iter().position(|byte| *byte == first) {
        let at = from + at;
        if bytes[at..].starts_with(text) {
            places.push(at);
        }
        from = at + 1;
    }
    places
}
