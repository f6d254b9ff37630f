//! Text format of stacks: which frames, which parts of a frame, their order, and the separators.
//!
//! ```text
//! ffffffff824b84f6 native_write_msr+0x6 ([kernel])
//!           118e5f __ppoll+0x4f (inlined)
//!            89a97 server_loop2+0x547 (/usr/sbin/sshd) at serverloop.c:351
//! ```
//!
//! [`parse_frame`] parses such a line, so recordings store stacks as printed.

use super::digits;
use super::unescape::unescape;
use crate::base::kernel::address::is_kernel_address;
use crate::base::matching::nearest::{did_you_mean, nearest};
use crate::base::report::frame::Frame;

/// The parts of a stack that are printed. A frame without any of the selected parts is printed as
/// its address, or else as `[unknown]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackStyle {
    /// Kernel frames.
    pub kernel: bool,
    /// User frames.
    pub user: bool,
    /// The address of a frame.
    pub address: bool,
    /// The function.
    pub symbol: bool,
    /// Offset in the function, after its name.
    pub offset: bool,
    /// The file of the frame's code.
    pub dso: bool,
    /// Outermost first.
    pub reverse: bool,
    /// Separator between two frames; None prints each frame on its own line.
    pub between: Option<String>,
    /// Text after the last frame.
    pub behind: String,
}

/// Options of a style.
const WORDS: [&str; 9] =
    ["kernel", "user", "addr", "symbol", "offset", "dso", "reverse", "frames=TEXT", "stacks=TEXT"];

impl Default for StackStyle {
    /// Everything, innermost first, one frame per line.
    fn default() -> StackStyle {
        StackStyle {
            kernel: true,
            user: true,
            address: true,
            symbol: true,
            offset: true,
            dso: true,
            reverse: false,
            between: None,
            behind: String::new(),
        }
    }
}

impl StackStyle {
    /// Returns the style of function names separated by `;`.
    pub fn symbols() -> StackStyle {
        let between = Some(";".to_owned());
        StackStyle { address: false, offset: false, dso: false, between, ..StackStyle::default() }
    }

    /// Parses a comma-separated list of options: `kernel`, `user`, `addr`, `symbol`, `offset`,
    /// `dso`, `reverse`, and `frames=TEXT` and `stacks=TEXT` for the text between frames and after
    /// a stack, where `\n` and `\t` stand for newline and tab. Without `kernel` and `user` both are
    /// printed; without a part of a frame all parts are.
    ///
    /// # Errors
    /// An option is unknown.
    pub fn parse(list: &str) -> Result<StackStyle, String> {
        let mut given = [false; 7];
        let mut style = StackStyle::default();
        for word in list.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            if let Some(at) = WORDS.iter().take(7).position(|known| *known == word) {
                if let Some(flag) = given.get_mut(at) {
                    *flag = true;
                }
            } else if let Some(text) = word.strip_prefix("frames=") {
                style.between = Some(unescaped(text));
            } else if let Some(text) = word.strip_prefix("stacks=") {
                style.behind = unescaped(text);
            } else {
                let near = nearest(word, WORDS.into_iter());
                let hint = match near.is_empty() {
                    true => format!("; expected {}", WORDS.join(", ")),
                    false => did_you_mean(&near),
                };
                return Err(format!("unknown stack option '{word}'{hint}"));
            }
        }
        let [kernel, user, address, symbol, offset, dso, reverse] = given;
        if kernel || user {
            (style.kernel, style.user) = (kernel, user);
        }
        if address || symbol || offset || dso {
            (style.address, style.symbol) = (address, symbol || offset);
            (style.offset, style.dso) = (offset, dso);
        }
        style.reverse = reverse;
        Ok(style)
    }

    /// Returns the frames to print, in print order.
    pub fn chosen<'a>(&self, frames: &'a [Frame]) -> Vec<&'a Frame> {
        let shown = |frame: &&Frame| if frame.kernel { self.kernel } else { self.user };
        let mut chosen: Vec<&Frame> = frames.iter().filter(shown).collect();
        if self.reverse {
            chosen.reverse();
        }
        chosen
    }

    /// Appends a frame, with its address padded to `width`.
    pub fn push(&self, out: &mut Vec<u8>, frame: &Frame, width: usize) {
        let start = out.len();
        let symbol = frame.symbol.as_deref().filter(|_| self.symbol);
        // Address 0 means none: the frame is not code, or is from a recording with names only.
        let alone = symbol.is_none() && (frame.dso.is_none() || !self.dso);
        if frame.address != 0 && (self.address || alone) {
            let width = if self.address { width } else { 0 };
            digits::push_hex_right(out, frame.address, width);
        }
        let part = |out: &mut Vec<u8>| {
            if out.len() > start {
                out.push(b' ');
            }
        };
        if let Some(symbol) = symbol {
            part(out);
            out.extend_from_slice(symbol.as_bytes());
            if self.offset && frame.address != 0 {
                out.push(b'+');
                digits::push_hex(out, frame.offset);
            }
        } else if alone && frame.address == 0 {
            out.extend_from_slice(b"[unknown]");
        }
        if self.dso && (frame.inlined || frame.dso.is_some()) {
            part(out);
            let dso = if frame.inlined { Some("inlined") } else { frame.dso.as_deref() };
            out.push(b'(');
            out.extend_from_slice(dso.unwrap_or_default().as_bytes());
            out.push(b')');
        }
        if let Some((file, line)) = &frame.line {
            part(out);
            out.extend_from_slice(b"at ");
            out.extend_from_slice(file.as_bytes());
            out.push(b':');
            digits::push_u64(out, (*line).into());
        }
    }

    /// Returns a frame as text.
    pub fn text(&self, frame: &Frame) -> String {
        let mut out = Vec::new();
        self.push(&mut out, frame, 0);
        String::from_utf8_lossy(&out).into_owned()
    }

    /// Returns a frame as table text. If neither addresses nor files are shown, a frame without a
    /// symbol is its file in brackets, because a row per address is not useful.
    pub fn in_table(&self, frame: &Frame) -> String {
        match frame.symbol.is_none() && !self.address && !self.dso {
            true => frame.name().into_owned(),
            false => self.text(frame),
        }
    }
}

fn unescaped(text: &str) -> String {
    let plain = unescape(text.as_bytes(), &[(b"\\n", b'\n'), (b"\\t", b'\t')]);
    String::from_utf8_lossy(&plain).into_owned()
}

/// Parses a frame printed by [`StackStyle::push`]. A name without an address or file is a kernel
/// frame; a name in brackets (`[truncated]`) is not.
pub fn parse_frame(text: &str) -> Frame {
    let mut frame = Frame::default();
    let mut rest = text;
    if let Some((before, place)) = rest.rsplit_once(" at ").filter(|(before, _)| !before.is_empty())
        && let Some((file, digits)) = place.rsplit_once(':')
        && let Ok(line) = digits.parse::<u32>()
        && line.to_string() == digits
    {
        frame.line = Some((file.into(), line));
        rest = before;
    }
    // The name of a deleted file ends with a suffix in parentheses.
    let opens = [" (/", " ([", " (inlined"].into_iter().filter_map(|open| rest.rfind(open)).max();
    if let Some(at) = opens.filter(|at| *at > 0)
        && let Some((before, name)) =
            rest.strip_suffix(')').and_then(|text| text.split_at_checked(at))
        && let Some(name) = name.strip_prefix(" (")
    {
        frame.inlined = name == "inlined";
        if name.starts_with(['/', '[']) {
            frame.dso = Some(name.into());
        }
        if frame.inlined || frame.dso.is_some() {
            rest = before;
        }
    }
    // A function after an address always has an offset, so no part of a name is parsed as an
    // address.
    let (word, behind) = rest.split_once(' ').unwrap_or((rest, ""));
    if word == rest {
        frame.address = hex(word).filter(|_| word.len() >= 5).unwrap_or(0);
        rest = if frame.address == 0 { rest } else { "" };
    } else if let (Some(address), Some((symbol, digits))) = (hex(word), behind.rsplit_once("+0x"))
        && let (Some(offset), true) = (hex(digits), address != 0)
    {
        (frame.address, frame.offset) = (address, offset);
        rest = symbol;
    }
    frame.symbol = (!rest.is_empty() || frame.address == 0).then(|| rest.into());
    frame.kernel = match &frame.dso {
        Some(dso) => dso.starts_with('[') && !of_process(dso),
        None if frame.address == 0 => !rest.starts_with(['[', '(']),
        None => is_kernel_address(frame.address),
    };
    frame
}

/// Parses a hexadecimal number without leading zeros.
fn hex(digits: &str) -> Option<u64> {
    let value = u64::from_str_radix(digits, 16).ok()?;
    (format!("{value:x}") == digits).then_some(value)
}

/// Returns whether a name in brackets is a mapping of a process, not a kernel module.
fn of_process(dso: &str) -> bool {
    const MAPPINGS: [&str; 6] =
        ["[vdso]", "[vsyscall]", "[heap]", "[stack]", "[uprobes]", "[guest]"];
    MAPPINGS.contains(&dso) || dso.starts_with("[anon")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(address: u64, symbol: &str, dso: &str) -> Frame {
        let some = |text: &str| (!text.is_empty()).then(|| text.into());
        let kernel = is_kernel_address(address);
        Frame {
            address,
            symbol: some(symbol),
            offset: 0x4f,
            dso: some(dso),
            kernel,
            ..Frame::default()
        }
    }

    fn text(style: &str, frame: &Frame) -> String {
        StackStyle::parse(style).unwrap().text(frame)
    }

    #[test]
    fn a_frame_shows_the_requested_parts() {
        let poll = frame(0x118e5f, "__ppoll", "/usr/lib/libc.so.6");
        assert_eq!(text("", &poll), "118e5f __ppoll+0x4f (/usr/lib/libc.so.6)");
        assert_eq!(text("symbol", &poll), "__ppoll");
        assert_eq!(text("offset", &poll), "__ppoll+0x4f");
        assert_eq!(text("addr,dso", &poll), "118e5f (/usr/lib/libc.so.6)");
        let mut out = Vec::new();
        StackStyle::default().push(&mut out, &poll, 16);
        assert_eq!(out, b"          118e5f __ppoll+0x4f (/usr/lib/libc.so.6)");
    }

    #[test]
    fn unknown_parts_are_omitted_and_something_is_always_shown() {
        assert_eq!(text("", &frame(0x10000, "", "")), "10000");
        assert_eq!(text("symbol", &frame(0x10000, "", "/bin/x")), "10000");
        assert_eq!(text("symbol,dso", &frame(0x10000, "", "/bin/x")), "(/bin/x)");
        assert_eq!(text("", &Frame { symbol: Some("leaky".into()), ..Frame::default() }), "leaky");
        assert_eq!(text("", &Frame::default()), "[unknown]");
        let inlined = Frame { inlined: true, ..frame(0x118e5f, "poll", "/usr/lib/libc.so.6") };
        assert_eq!(text("", &inlined), "118e5f poll+0x4f (inlined)");
        let line = Some(("a.c".into(), 7));
        assert_eq!(text("symbol", &Frame { line, ..inlined }), "poll at a.c:7");
    }

    #[test]
    fn tables_show_the_file_of_code_without_symbols() {
        let text =
            |dso, style: &str| StackStyle::parse(style).unwrap().in_table(&frame(0x10000, "", dso));
        assert_eq!(text("/usr/lib/libfoo.so", "symbol"), "[libfoo.so]");
        assert_eq!(text("[vdso]", "symbol"), "[vdso]");
        assert_eq!(text("", "offset"), "[unknown]");
        assert_eq!(text("/usr/lib/libfoo.so", "symbol,dso"), "(/usr/lib/libfoo.so)");
        assert_eq!(text("/usr/lib/libfoo.so", "addr"), "10000");
    }

    #[test]
    fn kernel_or_user_frames_are_selected_and_reversed() {
        let frames = [frame(1 << 63, "k", "[kernel]"), frame(1, "u", "/bin/x")];
        let chosen = |style: &str| {
            let style = StackStyle::parse(style).unwrap();
            style.chosen(&frames).iter().filter_map(|f| f.symbol.as_deref()).collect::<String>()
        };
        assert_eq!(
            [chosen(""), chosen("user"), chosen("kernel"), chosen("reverse")],
            ["ku", "u", "k", "uk"]
        );
    }

    #[test]
    fn separators_are_options_and_unknown_options_are_refused() {
        let style = StackStyle::parse("symbol, frames= <- ,stacks=\\n").unwrap();
        assert_eq!((style.between.as_deref(), &*style.behind), (Some(" <-"), "\n"));
        assert_eq!(
            StackStyle::parse("kernal").unwrap_err(),
            "unknown stack option 'kernal'; did you mean 'kernel'?"
        );
    }

    #[test]
    fn a_bare_name_is_read_as_a_kernel_symbol() {
        let read = parse_frame("operator new(unsigned long)");
        assert_eq!(read.symbol.as_deref(), Some("operator new(unsigned long)"));
        assert!(read.kernel && read.dso.is_none() && read.address == 0);
        assert!(!parse_frame("7ffe0 clock_gettime+0x10 ([vdso])").kernel);
        assert!(parse_frame("ffffffffc0000000 nf_hook+0x1 ([nf_conntrack])").kernel);
    }

    proptest! {
        #[test]
        fn a_printed_frame_round_trips(
            address in (1u64 << 20)..u64::MAX,
            offset: u32,
            module: bool,
            inlined: bool,
            line in 0u32..100,
            symbol in "[a-z_][a-zA-Z0-9_:<>, ()*&~]{0,20}[a-z_>]", file in "[a-z]{1,9}\\.c",
        ) {
            let dso = match (is_kernel_address(address), module) {
                (true, true) => "[xfs]",
                (true, false) => "[kernel]",
                (false, true) => "[vdso]",
                (false, false) => "/usr/lib/x (deleted)",
            };
            let frame = Frame {
                address,
                offset: offset.into(),
                symbol: Some(symbol.into()),
                dso: (!inlined).then(|| dso.into()),
                kernel: is_kernel_address(address),
                inlined,
                line: (line > 0).then(|| (file.into(), line)),
            };
            let text = StackStyle::default().text(&frame);
            prop_assert_eq!(parse_frame(&text), frame, "{}", text);
        }
    }
}
