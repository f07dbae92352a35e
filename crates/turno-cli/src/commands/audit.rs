//! `turno audit`: every row that no rule reaches (rule V3).

use crate::args::App;
use crate::exit::Exit;

/// Prints the findings; status 1 if there are any.
pub async fn run(app: &mut App) -> anyhow::Result<Exit> {
    let findings = app.connect().await?.audit().await?;
    if app.output.is_json() {
        for finding in &findings {
            app.output.document(finding)?;
        }
    } else if findings.is_empty() {
        app.output.line("no findings: every row is within reach of a rule")?;
    } else {
        let rows: Vec<Vec<String>> = findings
            .iter()
            .map(|finding| {
                let example = finding.example.map_or_else(String::new, |job| job.to_string());
                vec![finding.check.clone(), finding.rows.to_string(), example, finding.meaning.clone()]
            })
            .collect();
        app.output.table(&["CHECK", "ROWS", "EXAMPLE", "MEANING"], &rows)?;
    }
    Ok(if findings.is_empty() { Exit::Ok } else { Exit::BadNews })
}
