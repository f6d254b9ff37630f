//! Lua patterns, matched as LuaJIT's `string.find` does (lib_string.c), by a matcher that can be
//! stopped.
//!
//! A pattern with many repetitions can backtrack for years. LuaJIT's matcher cannot be interrupted;
//! this one calls its `stop` function at regular intervals. Everything else is the same: the order
//! of attempts, the classes (ASCII only), the limits on captures and nesting, the errors. A NUL
//! ends a pattern, as in C.

use class::{in_class, in_set};
pub use found::{Capture, CaptureLength, Match, PatternError};

mod class;
mod found;

/// Maximum number of captures in a pattern (`LUA_MAXCAPTURES`).
pub const CAPTURES_MAX: usize = 32;

/// Maximum nesting of attempts (`LJ_MAX_XLEVEL`).
const DEPTH_MAX: u32 = 200;

/// Number of steps between calls of `stop`: 10 to 50 us.
const STEPS: u32 = 1 << 14;

type Outcome = Result<Option<u32>, PatternError>;

/// Matches one pattern against one subject.
pub struct PatternMatcher<'a, S> {
    subject: &'a [u8],
    pattern: &'a [u8],
    captures: [Capture; CAPTURES_MAX],
    level: usize,
    depth: u32,
    steps: u32,
    stop: S,
}

impl<'a, S: Fn() -> bool> PatternMatcher<'a, S> {
    /// Returns a matcher that fails with [`PatternError::Stopped`] soon after `stop` begins to
    /// return true. The subject must be shorter than 2^31 bytes.
    pub fn new(subject: &'a [u8], pattern: &'a [u8], stop: S) -> Self {
        let end = pattern.iter().position(|byte| *byte == 0).unwrap_or(pattern.len());
        PatternMatcher {
            subject,
            pattern: &pattern[..end],
            captures: [Capture::default(); CAPTURES_MAX],
            level: 0,
            depth: 0,
            steps: 0,
            stop,
        }
    }

    /// The captures of the last match.
    pub fn captures(&self) -> &[Capture] {
        &self.captures[..self.level]
    }

    /// Finds the first match that begins at byte `from` or later; if `anchors`, a `^` at the start
    /// of the pattern allows only `from` itself.
    ///
    /// # Errors
    /// The pattern is malformed or too complex, or `stop` returned true.
    pub fn search(&mut self, from: u32, anchors: bool) -> Result<Option<Match>, PatternError> {
        let anchored = anchors && self.pattern.first() == Some(&b'^');
        let first = usize::from(anchored);
        let head = self.head(first)?;
        let mut start = from;
        loop {
            // Skip positions where the first class does not match.
            if let Some(end) = head {
                while !anchored && self.byte(start).is_some() && !self.single(start, first, end)? {
                    self.charge(1)?;
                    start += 1;
                }
            }
            (self.level, self.depth) = (0, 0);
            if let Some(end) = self.attempt(start, first)? {
                return Ok(Some(Match { start, end }));
            }
            if anchored || start as usize >= self.subject.len() {
                return Ok(None);
            }
            start += 1;
        }
    }

    /// Returns the end of the class that a match must begin with; None if a match may begin
    /// otherwise.
    fn head(&mut self, p: usize) -> Result<Option<usize>, PatternError> {
        let next = self.item(p + 1);
        let other = match self.item(p) {
            0 | b'(' | b')' => true,
            b'$' => next == 0,
            b'%' => matches!(next, b'b' | b'f' | b'0'..=b'9'),
            _ => false,
        };
        if other {
            return Ok(None);
        }
        let end = self.class_end(p)?;
        Ok((!matches!(self.item(end), b'*' | b'?' | b'-')).then_some(end))
    }

    /// Finds a text without special characters.
    ///
    /// # Errors
    /// `stop` returned true.
    pub fn search_plain(&mut self, from: u32, text: &[u8]) -> Result<Option<Match>, PatternError> {
        let length = text.len() as u32;
        for start in from..=self.subject.len() as u32 {
            let rest = &self.subject[start as usize..];
            let equal = rest.iter().zip(text).take_while(|(a, b)| a == b).count();
            self.charge(equal as u32 + 1)?;
            if equal == text.len() {
                return Ok(Some(Match { start, end: start + length }));
            }
        }
        Ok(None)
    }

    /// Counts steps, and calls `stop` after each [`STEPS`] of them.
    #[inline]
    fn charge(&mut self, steps: u32) -> Result<(), PatternError> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps < STEPS {
            return Ok(());
        }
        self.steps = 0;
        if (self.stop)() { Err(PatternError::Stopped) } else { Ok(()) }
    }

    /// Returns a byte of the pattern; NUL after its end.
    #[inline]
    fn item(&self, at: usize) -> u8 {
        self.pattern.get(at).copied().unwrap_or(0)
    }

    #[inline]
    fn byte(&self, at: u32) -> Option<u8> {
        self.subject.get(at as usize).copied()
    }

    /// Matches the pattern from `p` on at `s`. Returns the end of the match.
    fn attempt(&mut self, mut s: u32, mut p: usize) -> Outcome {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(PatternError::TooComplex);
        }
        let outcome = loop {
            self.charge(1)?;
            match self.item(p) {
                0 => break Some(s),
                b'(' if self.item(p + 1) == b')' => {
                    break self.open(s, p + 2, CaptureLength::Position)?;
                }
                b'(' => break self.open(s, p + 1, CaptureLength::Unfinished)?,
                b')' => break self.close(s, p + 1)?,
                b'$' if self.item(p + 1) == 0 => {
                    break (s as usize == self.subject.len()).then_some(s);
                }
                b'%' => match self.item(p + 1) {
                    b'b' => match self.balance(s, p + 2)? {
                        Some(end) => {
                            (s, p) = (end, p + 4);
                            continue;
                        }
                        None => break None,
                    },
                    b'f' => match self.frontier(s, p + 2)? {
                        Some(next) => {
                            p = next;
                            continue;
                        }
                        None => break None,
                    },
                    digit @ b'0'..=b'9' => match self.again(s, digit)? {
                        Some(end) => {
                            (s, p) = (end, p + 2);
                            continue;
                        }
                        None => break None,
                    },
                    _ => {}
                },
                _ => {}
            }
            let end = self.class_end(p)?;
            let matched = self.single(s, p, end)?;
            match self.item(end) {
                b'?' => {
                    if matched && let Some(found) = self.attempt(s + 1, end + 1)? {
                        break Some(found);
                    }
                    p = end + 1;
                }
                b'*' => break self.most(s, p, end)?,
                b'+' => break if matched { self.most(s + 1, p, end)? } else { None },
                b'-' => break self.fewest(s, p, end)?,
                _ if matched => (s, p) = (s + 1, end),
                _ => break None,
            }
        };
        self.depth -= 1;
        Ok(outcome)
    }

    /// Matches as many of the class at `p` as possible, then fewer.
    fn most(&mut self, s: u32, p: usize, end: usize) -> Outcome {
        let mut count = self.run(s, p, end)?;
        loop {
            if let Some(found) = self.attempt(s + count, end + 1)? {
                return Ok(Some(found));
            }
            if count == 0 {
                return Ok(None);
            }
            count -= 1;
        }
    }

    /// Returns how many bytes at `s` are in the class at `p`.
    fn run(&mut self, s: u32, p: usize, end: usize) -> Result<u32, PatternError> {
        const PIECE: usize = 256;
        let (subject, pattern) = (self.subject, self.pattern);
        let (first, second) = (self.item(p), self.item(p + 1));
        let mut count = 0;
        for piece in subject[s as usize..].chunks(PIECE) {
            let run = |matched: &dyn Fn(u8) -> bool| {
                piece.iter().position(|byte| !matched(*byte)).unwrap_or(piece.len())
            };
            let matched = match first {
                b'.' => piece.len(),
                b'%' => piece.iter().position(|b| !in_class(*b, second)).unwrap_or(piece.len()),
                b'[' => run(&|byte| in_set(byte, pattern, p, end - 1)),
                literal => run(&|byte| byte == literal),
            };
            let each = if first == b'[' { end - p } else { 1 };
            self.charge(u32::try_from(each * matched).unwrap_or(u32::MAX))?;
            count += matched as u32;
            if matched < piece.len() {
                break;
            }
        }
        Ok(count)
    }

    /// Matches as few of the class at `p` as possible, then more.
    fn fewest(&mut self, mut s: u32, p: usize, end: usize) -> Outcome {
        loop {
            if let Some(found) = self.attempt(s, end + 1)? {
                return Ok(Some(found));
            }
            if !self.single(s, p, end)? {
                return Ok(None);
            }
            s += 1;
        }
    }

    fn open(&mut self, s: u32, p: usize, length: CaptureLength) -> Outcome {
        let level = self.level;
        let capture = self.captures.get_mut(level).ok_or(PatternError::TooManyCaptures)?;
        *capture = Capture { start: s, length };
        self.level += 1;
        let found = self.attempt(s, p)?;
        if found.is_none() {
            self.level -= 1;
        }
        Ok(found)
    }

    fn close(&mut self, s: u32, p: usize) -> Outcome {
        let open = |capture: &Capture| capture.length == CaptureLength::Unfinished;
        let last = self.captures().iter().rposition(open).ok_or(PatternError::CaptureEnd)?;
        self.captures[last].length = CaptureLength::Bytes(s - self.captures[last].start);
        let found = self.attempt(s, p)?;
        if found.is_none() {
            self.captures[last].length = CaptureLength::Unfinished;
        }
        Ok(found)
    }

    /// Matches the text of a capture (`%1`) again.
    fn again(&mut self, s: u32, digit: u8) -> Outcome {
        let index = usize::from(digit.wrapping_sub(b'1'));
        let capture = self.captures().get(index).ok_or(PatternError::CaptureIndex)?;
        let length = match capture.length {
            CaptureLength::Unfinished => return Err(PatternError::CaptureIndex),
            // LuaJIT uses the position mark as the length here, and no subject is that long.
            CaptureLength::Position => return Ok(None),
            CaptureLength::Bytes(length) => length,
        };
        let start = capture.start as usize;
        self.charge(length)?;
        let before = &self.subject[start..start + length as usize];
        let equal = self.subject[s as usize..].starts_with(before);
        Ok(equal.then_some(s + length))
    }

    fn balance(&mut self, s: u32, p: usize) -> Outcome {
        let (begin, end) = (self.item(p), self.item(p + 1));
        if begin == 0 || end == 0 {
            return Err(PatternError::Balance);
        }
        if self.byte(s) != Some(begin) {
            return Ok(None);
        }
        let mut open = 1u32;
        let mut at = s + 1;
        while let Some(byte) = self.byte(at) {
            self.charge(1)?;
            at += 1;
            if byte == end {
                open -= 1;
                if open == 0 {
                    return Ok(Some(at));
                }
            } else if byte == begin {
                open += 1;
            }
        }
        Ok(None)
    }

    /// Returns the pattern position after `%f[set]` if the set begins at `s`.
    fn frontier(&mut self, s: u32, p: usize) -> Result<Option<usize>, PatternError> {
        if self.item(p) != b'[' {
            return Err(PatternError::Frontier);
        }
        let end = self.class_end(p)?;
        let before = s.checked_sub(1).and_then(|at| self.byte(at)).unwrap_or(0);
        let here = self.byte(s).unwrap_or(0);
        let begins =
            !in_set(before, self.pattern, p, end - 1) && in_set(here, self.pattern, p, end - 1);
        Ok(begins.then_some(end))
    }

    /// Returns the end of the class that begins at `p`.
    #[inline]
    fn class_end(&mut self, p: usize) -> Result<usize, PatternError> {
        match self.item(p) {
            b'%' if self.item(p + 1) == 0 => Err(PatternError::EscapeEnd),
            b'%' => Ok(p + 2),
            b'[' => {
                let mut at = p + 1 + usize::from(self.item(p + 1) == b'^');
                loop {
                    let item = self.item(at);
                    if item == 0 {
                        return Err(PatternError::Bracket);
                    }
                    at += 1;
                    if item == b'%' && self.item(at) != 0 {
                        at += 1;
                    }
                    if self.item(at) == b']' {
                        self.charge((at - p) as u32)?;
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(p + 1),
        }
    }

    /// Returns whether the byte at `s` exists and is in the class from `p` to `end`.
    #[inline]
    fn single(&mut self, s: u32, p: usize, end: usize) -> Result<bool, PatternError> {
        let Some(byte) = self.byte(s) else { return Ok(false) };
        Ok(match self.item(p) {
            b'.' => true,
            b'%' => in_class(byte, self.item(p + 1)),
            b'[' => {
                self.charge((end - p) as u32)?;
                in_set(byte, self.pattern, p, end - 1)
            }
            literal => literal == byte,
        })
    }
}

#[cfg(test)]
mod tests;
