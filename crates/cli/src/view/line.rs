//! One line of the tree, fitted to a width: the title is cut first, and what follows it is kept.

use super::paint::{Paint, Palette, fit, width};

/// Columns that a title keeps in the narrowest window.
const TITLE_MIN: usize = 8;

/// A line that is not yet fitted or coloured.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    before: Vec<(String, Paint)>,
    title: (String, Paint),
    after: Vec<(String, Paint)>,
    detail: Option<(String, Paint)>,
}

impl Line {
    /// A line with a title, which is cut when the window is narrow.
    pub(crate) fn new(title: impl Into<String>, paint: Paint) -> Self {
        Self { before: Vec::new(), title: (title.into(), paint), after: Vec::new(), detail: None }
    }

    /// A dim line.
    pub(crate) fn note(text: impl Into<String>) -> Self {
        Self::new(text, Paint::Dim)
    }

    /// Adds text before the title.
    pub(crate) fn before(&mut self, text: impl Into<String>, paint: Paint) {
        self.before.push((text.into(), paint));
    }

    /// Adds text after the title, separated by ` · `.
    pub(crate) fn after(&mut self, text: impl Into<String>, paint: Paint) {
        self.after.push((text.into(), paint));
    }

    /// Sets the text that is shown last, in the columns that are left.
    pub(crate) fn detail(&mut self, text: impl Into<String>, paint: Paint) {
        self.detail = Some((text.into(), paint));
    }

    /// The line in at most `columns`, coloured.
    pub(crate) fn render(&self, columns: usize, palette: Palette) -> String {
        let mut parts: Vec<(String, Paint)> = self.before.clone();
        let before: usize = self.before.iter().map(|(t, _)| width(t)).sum();
        let after: usize = self.after.iter().map(|(t, _)| width(t) + 3).sum::<usize>().saturating_sub(1);
        let room = columns.saturating_sub(before + after).max(TITLE_MIN);
        parts.push((fit(&self.title.0, room), self.title.1));
        for (i, (text, paint)) in self.after.iter().enumerate() {
            parts.push(if i == 0 { ("  ".into(), Paint::Plain) } else { (" · ".into(), Paint::Dim) });
            parts.push((text.clone(), *paint));
        }
        if let Some((text, paint)) = &self.detail {
            parts.push(("  ".into(), Paint::Plain));
            parts.push((text.clone(), *paint));
        }
        let mut left = columns;
        let mut line = String::new();
        for (text, paint) in parts {
            let text = fit(&text, left);
            left -= width(&text).min(left);
            line.push_str(&palette.paint(paint, &text));
            if left == 0 {
                break;
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// What stands before the lines of a tree, which come in its order with these depths.
pub(crate) fn leads(depths: &[usize]) -> Vec<String> {
    let mut last = vec![false; depths.len()];
    // Whether another line of this depth follows, below the same parent.
    let mut follows: Vec<bool> = Vec::new();
    for (place, depth) in depths.iter().enumerate().rev() {
        follows.resize(depth + 1, false);
        last[place] = !std::mem::replace(&mut follows[*depth], true);
    }
    let mut above: Vec<&str> = Vec::new();
    let lead = |(depth, last): (&usize, bool)| {
        above.truncate(depth.saturating_sub(1));
        let mut lead = above.concat();
        if *depth > 0 {
            lead.push_str(if last { "└─ " } else { "├─ " });
            above.push(if last { "   " } else { "│  " });
        }
        lead
    };
    depths.iter().zip(last).map(lead).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_title_is_cut_first() {
        let mut line = Line::new("a rather long title", Paint::Plain);
        line.before("├─ ", Paint::Dim);
        line.after("executing", Paint::Busy);
        line.after("1.2s", Paint::Dim);
        let plain = Palette { colour: false };
        assert_eq!(line.render(200, plain), "├─ a rather long title  executing · 1.2s");
        assert_eq!(line.render(34, plain), "├─ a rather lon…  executing · 1.2s");
        for columns in 0..60 {
            assert!(width(&line.render(columns, plain)) <= columns, "{columns}");
        }
    }
}
