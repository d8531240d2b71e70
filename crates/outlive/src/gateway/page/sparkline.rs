//! Small pictures of numbers over time.
//!
//! Each is drawn into a box that is stretched to its place, from the left to now. Numbers are written with one digit
//! after the point: nobody sees more, and the page is asked for again and again.

use std::fmt::Write;

/// The box.
const WIDTH: f64 = 120.0;
const HEIGHT: f64 = 24.0;

/// Part of a slot that a bar fills.
const BAR: f64 = 0.7;

/// One picture.
pub(super) struct Sparkline {
    svg: String,
}

impl Sparkline {
    /// An empty picture; whoever cannot see it is told this.
    pub(super) fn new(told: &str) -> Sparkline {
        let told = super::escaped(told);
        let svg = format!(
            "<svg class=spark viewBox='0 0 {WIDTH} {HEIGHT}' preserveAspectRatio=none role=img aria-label='{told}'>\
             <path class=base d='M0 {HEIGHT}H{WIDTH}'/>"
        );
        Sparkline { svg }
    }

    /// A bar for each number that is not zero; `top` fills the box.
    pub(super) fn bars(mut self, class: &str, numbers: &[f64], top: f64) -> Sparkline {
        let width = WIDTH / numbers.len().max(1) as f64;
        let mut path = String::new();
        for (n, number) in numbers.iter().enumerate().filter(|(_, it)| **it > 0.0) {
            // What is there can be seen, however little it is.
            let height = (number / top * HEIGHT).clamp(2.0, HEIGHT);
            let (x, bar) = (n as f64 * width, width * BAR);
            let _ = write!(path, "M{x:.1} {HEIGHT}v-{height:.1}h{bar:.1}v{height:.1}z");
        }
        self.path(class, &path);
        self
    }

    /// A line of steps through the numbers that are there; `top` is the upper edge.
    pub(super) fn line(mut self, class: &str, numbers: &[Option<f64>], top: f64) -> Sparkline {
        let width = WIDTH / numbers.len().max(1) as f64;
        let mut path = String::new();
        let mut is_drawn = false;
        for (n, number) in numbers.iter().enumerate() {
            if let Some(number) = number {
                // Half a line's width away from the edges.
                let y = 1.0 + (1.0 - (number / top).clamp(0.0, 1.0)) * (HEIGHT - 2.0);
                let (x, end) = (n as f64 * width, (n + 1) as f64 * width);
                let _ = match is_drawn {
                    true => write!(path, "V{y:.1}H{end:.1}"),
                    false => write!(path, "M{x:.1} {y:.1}H{end:.1}"),
                };
            }
            is_drawn = number.is_some();
        }
        self.path(class, &path);
        self
    }

    fn path(&mut self, class: &str, path: &str) {
        let _ = write!(self.svg, "<path class={class} d='{path}'/>");
    }

    pub(super) fn finish(mut self) -> String {
        self.svg.push_str("</svg>");
        self.svg
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_stand_where_something_was() {
        let svg = Sparkline::new("a 'b'").bars("calls", &[0.0, 2.0, 4.0, 0.0], 4.0);
        let svg = svg.finish();
        assert!(svg.contains("aria-label='a &#39;b&#39;'"), "{svg}");
        assert!(
            svg.contains("d='M30.0 24v-12.0h21.0v12.0zM60.0 24v-24.0h21.0v24.0z'"),
            "{svg}"
        );
        assert!(svg.ends_with("</svg>"));
    }

    #[test]
    fn a_line_is_broken_where_nothing_was() {
        let numbers = [Some(4.0), None, Some(0.0), Some(2.0)];
        let svg = Sparkline::new("").line("p50", &numbers, 4.0).finish();
        assert!(
            svg.contains("d='M0.0 1.0H30.0M60.0 23.0H90.0V12.0H120.0'"),
            "{svg}"
        );
    }

    #[test]
    fn nothing_at_all_is_a_picture_too() {
        let svg = Sparkline::new("")
            .line("p50", &[], 0.0)
            .bars("calls", &[], 0.0)
            .finish();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
