//! Reading standard input or a file: lines, NDJSON rows, and batches of what they say. Memory is bounded by one batch
//! and one line. It refuses to enqueue anything.

mod batch;
mod lines;
mod row;

pub use batch::{Batch, read};
pub use lines::{Line, Lines};
pub use row::{Row, RowDefaults};
