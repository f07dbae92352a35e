//! The turno binary.
fn main() {}
