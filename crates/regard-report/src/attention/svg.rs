//! What the SVG pictures share: the colour scale, the frame and the numbers.

use std::fmt::Write;

use crate::text::escape_xml;

/// Colour of the weight 0, and of the weight 1: one hue, told apart by lightness alone.
const LIGHT: [f32; 3] = [243.0, 246.0, 251.0];
const DARK: [f32; 3] = [11.0, 60.0, 125.0];

/// How far along the colour scale a weight stands: its root, so that among many words small
/// weights can still be told from none.
pub(crate) fn depth(weight: f32) -> f32 {
    weight.clamp(0.0, 1.0).sqrt()
}

/// `#rrggbb` of a weight in \[0, 1\].
pub(crate) fn colour(weight: f32) -> String {
    let t = depth(weight);
    let channel = |c: usize| (LIGHT[c] + t * (DARK[c] - LIGHT[c])).round() as u8;
    format!("#{:02x}{:02x}{:02x}", channel(0), channel(1), channel(2))
}

/// Colour of text that can be read on the colour of a weight.
pub(crate) fn text_colour(weight: f32) -> &'static str {
    if depth(weight) > 0.55 { "#ffffff" } else { "#1b2733" }
}

/// A weight with two decimals and no leading zero: `.62`, `1.0`.
pub(crate) fn short_weight(weight: f32) -> String {
    let text = format!("{weight:.2}");
    match text.strip_prefix("0.") {
        Some(decimals) => format!(".{decimals}"),
        None => format!("{weight:.1}"),
    }
}

/// An SVG document being written.
pub(crate) struct Svg(String);

impl Svg {
    /// Opens a picture of the given size in pixels with a title and description for those who
    /// cannot see it, a white ground, and the hatching of forbidden cells.
    pub(crate) fn open(width: f32, height: f32, title: &str, description: &str) -> Self {
        let (title, description) = (escape_xml(title), escape_xml(description));
        Self(format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0}" height="{height:.0}" viewBox="0 0 {width:.0} {height:.0}" role="img" font-family="system-ui, sans-serif" font-size="13" fill="#1b2733">
<title>{title}</title>
<desc>{description}</desc>
<defs><pattern id="forbidden" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="6" height="6" fill="#ffffff"/><rect width="1.5" height="6" fill="#c3cad3"/></pattern></defs>
<rect width="100%" height="100%" fill="#ffffff"/>
"##
        ))
    }

    /// Adds elements as they are; texts in them must have been escaped.
    pub(crate) fn push(&mut self, elements: std::fmt::Arguments) {
        self.0.write_fmt(elements).expect("writing to a string cannot fail");
        self.0.push('\n');
    }

    /// Adds the key to the colours at (x, y): five squares with their weights, and the hatching.
    pub(crate) fn push_legend(&mut self, x: f32, y: f32) {
        let text_y = y + 13.0;
        self.push(format_args!(r#"<text x="{x}" y="{text_y}">weight</text>"#));
        for (n, weight) in [0.0, 0.05, 0.25, 0.5, 1.0].into_iter().enumerate() {
            let x = x + 54.0 + 54.0 * n as f32;
            let fill = colour(weight);
            let label_x = x + 20.0;
            self.push(format_args!(
                r##"<rect x="{x}" y="{y}" width="16" height="16" fill="{fill}" stroke="#8a96a3" stroke-width="0.5"/><text x="{label_x}" y="{text_y}" font-size="11">{weight}</text>"##
            ));
        }
        let x = x + 324.0;
        let label_x = x + 20.0;
        self.push(format_args!(
            r##"<rect x="{x}" y="{y}" width="16" height="16" fill="url(#forbidden)" stroke="#8a96a3" stroke-width="0.5"/><text x="{label_x}" y="{text_y}" font-size="11">not allowed</text>"##
        ));
    }

    /// The finished document.
    pub(crate) fn close(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn darker_means_more() {
        let lightness = |weight| {
            let text = colour(weight);
            u32::from_str_radix(&text[1..3], 16).unwrap()
                + u32::from_str_radix(&text[3..5], 16).unwrap()
        };
        let levels: Vec<u32> = (0..=20).map(|n| lightness(n as f32 / 20.0)).collect();
        assert!(levels.windows(2).all(|pair| pair[0] > pair[1]), "{levels:?}");
        assert_eq!(colour(0.0), "#f3f6fb");
        assert_eq!(colour(1.0), "#0b3c7d");
    }

    #[test]
    fn short_weights() {
        for (weight, text) in [(0.0, ".00"), (0.625, ".62"), (0.996, "1.0"), (1.0, "1.0")] {
            assert_eq!(short_weight(weight), text);
        }
    }
}
