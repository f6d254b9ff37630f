//! A heat map of stacks over time as a page to explore: the flame graph of a selected range,
//! search, zoom, and the difference of two ranges.
//!
//! The page is one HTML file without external resources; its policy forbids the browser to load
//! any. Names come from programs and their users, so they are only in the JSON of the page, in
//! which `<` is escaped, and become text nodes.

use std::io::{self, Write};

use serde_json::json;

use super::svg::{Caption, xml};
use crate::base::report::flame::FrameKind;
use crate::base::report::stacks_over_time::StacksOverTime;

const PAGE: &str = include_str!("heat_page/page.html");
const SCRIPT: &str = include_str!("heat_page/page.js");

/// Writes the page.
///
/// # Errors
/// `out` cannot be written to.
pub fn write(stacks: &StacksOverTime, caption: &Caption, out: &mut dyn Write) -> io::Result<()> {
    let mut rest = PAGE;
    while let Some((before, after)) = rest.split_once('{') {
        out.write_all(before.as_bytes())?;
        rest = match after.split_once('}') {
            Some(("title", after)) => {
                out.write_all(xml(&caption.title).as_bytes())?;
                after
            }
            Some(("data", after)) => {
                out.write_all(data(stacks, caption).as_bytes())?;
                after
            }
            Some(("script", after)) => {
                out.write_all(SCRIPT.trim_end().as_bytes())?;
                after
            }
            _ => {
                out.write_all(b"{")?;
                after
            }
        };
    }
    out.write_all(rest.as_bytes())
}

/// Returns the data of the page as JSON that cannot end its element.
fn data(stacks: &StacksOverTime, caption: &Caption) -> String {
    let kind = |kind: FrameKind| match kind {
        FrameKind::Plain => 0,
        FrameKind::Kernel => 1,
        FrameKind::Inlined => 2,
    };
    let all = json!({
        "title": caption.title,
        "subtitle": caption.subtitle,
        "unit": stacks.unit,
        "cell_ns": stacks.cell_ns,
        "names": stacks.names.iter().map(|(name, _)| &**name).collect::<Vec<&str>>(),
        "kinds": stacks.names.iter().map(|(_, of)| kind(*of)).collect::<Vec<u8>>(),
        "parents": stacks.nodes.iter().map(|node| node.0).collect::<Vec<u32>>(),
        "frames": stacks.nodes.iter().map(|node| node.1).collect::<Vec<u32>>(),
        "cells": stacks.entries.iter().map(|entry| entry.0).collect::<Vec<u32>>(),
        "nodes": stacks.entries.iter().map(|entry| entry.1).collect::<Vec<u32>>(),
        "weights": stacks.entries.iter().map(|entry| entry.2).collect::<Vec<u64>>(),
    });
    all.to_string().replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::report::flame::Flame;

    fn page(comm: &str) -> String {
        let mut flame = Flame::default();
        let frames = ["0", comm, "f"].map(|name| flame.name(name, FrameKind::Plain));
        flame.push(&frames, 1);
        let stacks = StacksOverTime::new("samples", &flame, &[(7, 0, 3)]);
        let caption = Caption { title: format!("profile: {comm}"), subtitle: "3 lost".into() };
        let mut out = Vec::new();
        write(&stacks, &caption, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_hostile_name_stays_inside_the_data() {
        let page = page("</script><script>alert(1)//{title}");
        assert_eq!(page.matches("</script>").count(), 2, "the data's and the script's own");
        assert!(!page.contains("<script>alert"));
        let json = page.split_once("id=\"data\">").unwrap().1.split_once("</script>").unwrap().0;
        let data: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(data["names"][1], "</script><script>alert(1)//{title}");
        assert_eq!((&data["cells"][0], &data["weights"][0]), (&json!(7), &json!(3)));
    }

    #[test]
    fn the_page_loads_nothing() {
        let page = page("a");
        for text in ["http://", "https://", "src=", "href=", "url(", "import "] {
            assert!(!page.contains(text), "{text}");
        }
    }
}
