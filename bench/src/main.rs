//! wip
mod contender;
mod host;
mod matrix;
mod process;
mod traffic;
use std::time::Duration;
fn main() -> std::io::Result<()> {
    let p = contender::Programs::locate()?;
    let mut c = vec![p.direct(), p.relay()];
    if std::env::var_os("NO_OUTLIVE").is_none() {
        c.push(p.outlive());
    }
    if let Some(d) = std::env::var_os("PEERS") {
        c.extend(p.peers(std::path::Path::new(&d))?);
    }
    let m = matrix::Matrix::measure(
        c,
        matrix::all_cells(),
        matrix::Effort { rounds: 5, turn: Duration::from_millis(200) },
        &p.scratch,
        |r| eprintln!("round {r}"),
    )?;
    for cell in &m.cells {
        println!("{cell:?}");
        for (i, c) in m.contenders.iter().enumerate() {
            println!(
                "   {:20} p50 {:8.1} p99 {:8.1} rate {:8.0} cpu {:8.2} MB {:6.1} ratio {:.3}",
                c.name,
                m.median(i, *cell, |t| t.p50).unwrap_or(0.0),
                m.median(i, *cell, |t| t.p99).unwrap_or(0.0),
                m.median(i, *cell, |t| t.rate).unwrap_or(0.0),
                m.median(i, *cell, |t| t.processor).unwrap_or(0.0),
                m.resident(i).unwrap_or(0.0) / 1e6,
                m.median_of_pairs([i, 1], *cell, |t| t.rate, |a, b| a / b).unwrap_or(0.0),
            );
        }
    }
    Ok(())
}
