//! The timeline as a picture: a terminal window in SVG, for pages that cannot run the demo.

use std::fmt::Write;

use super::timeline::{Line, Tone, WIDTH};

const FONT: f64 = 13.0;
/// The advance of a character in the usual monospaced fonts is six tenths of their size.
const CELL: f64 = FONT * 0.6;
const LEADING: f64 = 18.0;
const MARGIN: f64 = 20.0;
const BAR: f64 = 36.0;

/// Draws the lines under a prompt with this command.
pub fn draw(command: &str, lines: &[Line]) -> String {
    let width = WIDTH as f64 * CELL + 2.0 * MARGIN;
    let height = BAR + (lines.len() + 1) as f64 * LEADING + MARGIN;
    let mut svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" xml:space="preserve" role="img" aria-label="A run of {command}">
<style>
text {{ font: {FONT}px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d7dae0 }}
.quiet {{ fill: #8a92a0 }} .title {{ fill: #ffffff; font-weight: 600 }} .good {{ fill: #8fce83 }} .warn {{ fill: #e8bf6a }} .bad {{ fill: #f0757e }}
</style>
<rect width="{width}" height="{height}" rx="10" fill="#1b1f27"/>
<circle cx="22" cy="18" r="6" fill="#f0757e"/><circle cx="42" cy="18" r="6" fill="#e8bf6a"/><circle cx="62" cy="18" r="6" fill="#8fce83"/>
"##
    );
    let mut y = BAR + FONT;
    text(&mut svg, 0, y, Tone::Quiet, "$");
    text(&mut svg, 2, y, Tone::Title, command);
    for line in lines {
        y += LEADING;
        let mut column = 0;
        for span in line {
            text(&mut svg, column, y, span.tone, &span.text);
            column += span.text.chars().count();
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// Places text on the grid, whatever the font: it starts at its column and is as wide as its cells.
fn text(svg: &mut String, column: usize, y: f64, tone: Tone, content: &str) {
    let shown = content.trim_start();
    let column = column + content.chars().count() - shown.chars().count();
    let shown = shown.trim_end();
    if shown.is_empty() {
        return;
    }
    let class = match tone {
        Tone::Plain => "",
        Tone::Quiet => " class=\"quiet\"",
        Tone::Title => " class=\"title\"",
        Tone::Good => " class=\"good\"",
        Tone::Warn => " class=\"warn\"",
        Tone::Bad => " class=\"bad\"",
    };
    let x = MARGIN + column as f64 * CELL;
    let length = shown.chars().count() as f64 * CELL;
    writeln!(
        svg,
        r#"<text{class} x="{x:.1}" y="{y}" textLength="{length:.1}">{}</text>"#,
        escape(shown)
    )
    .expect("a string takes everything");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::timeline::span;
    use super::*;

    #[test]
    fn text_keeps_its_column_and_is_escaped() {
        let lines = [vec![span(Tone::Plain, "  a "), span(Tone::Bad, " <b> & ")]];
        let svg = draw("outlive demo", &lines);
        let x = |column: f64| format!("{:.1}", MARGIN + column * CELL);
        assert!(svg.contains(&format!(r#"<text x="{}" "#, x(2.0))), "{svg}");
        assert!(
            svg.contains(&format!(r#"<text class="bad" x="{}" "#, x(5.0))),
            "{svg}"
        );
        assert!(svg.contains(">&lt;b&gt; &amp;</text>"), "{svg}");
    }
}
