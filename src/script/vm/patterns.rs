//! The string library's pattern functions, over a matcher that the guard can stop: see
//! `prelude/patterns.lua`.

use mlua::{Function, Lua, Table};

use super::guard::hook;
use super::trusted;
use crate::base::matching::pattern::{CAPTURES_MAX, CaptureLength, PatternError, PatternMatcher};

const PATTERNS: &str = include_str!("../prelude/patterns.lua");

/// Bits of the leaf's `how`: `^` anchors the pattern; the pattern is plain text; all captures are
/// needed.
const ANCHORS: i32 = 1;
const PLAIN: i32 = 2;
const CAPTURES: i32 = 4;

/// Return value without a match; a [`PatternError`] is less.
const NO_MATCH: i32 = -1;

/// Length of a capture that is not finished, and of one that is a position.
const UNFINISHED: i32 = -1;
const POSITION: i32 = -2;

/// Number of places for a match and its captures, each a start and an end or a length.
const PLACES: usize = 2 * (CAPTURES_MAX + 1);

/// Returns the functions `find match gmatch gsub`.
///
/// # Errors
/// The prelude failed to load.
pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let ffi: Table = lua.globals().get::<Function>("require")?.call("ffi")?;
    trusted::run(lua, "patterns", PATTERNS, (ffi, trusted::address(search as *const ()), PLACES))
}

/// Searches `subject` for a pattern from byte `from` on. Writes the start and the end of the match,
/// then the start and the length of each capture, and returns the number of captures; or
/// [`NO_MATCH`], or a [`PatternError`]. FFI leaf.
///
/// # Safety
/// `subject` and `pattern` have that many bytes, `from` is no more than the subject's, and `found`
/// has [`PLACES`] places.
unsafe extern "C" fn search(
    subject: *const u8,
    subject_length: i32,
    pattern: *const u8,
    pattern_length: i32,
    from: i32,
    how: i32,
    found: *mut i32,
) -> i32 {
    // SAFETY: the lengths are those of two strings of Lua, which live while the call lasts and do
    // not change.
    let (subject, pattern) = unsafe {
        (
            std::slice::from_raw_parts(subject, subject_length as usize),
            std::slice::from_raw_parts(pattern, pattern_length as usize),
        )
    };
    // SAFETY: `found` points to `PLACES` numbers of the runtime, to which nothing else writes
    // meanwhile.
    let found = unsafe { std::slice::from_raw_parts_mut(found, PLACES) };
    search_in(subject, pattern, from as u32, how, found).unwrap_or_else(|why| why as i32)
}

fn search_in(
    subject: &[u8],
    pattern: &[u8],
    from: u32,
    how: i32,
    found: &mut [i32],
) -> Result<i32, PatternError> {
    let mut matcher = PatternMatcher::new(subject, pattern, hook::is_stopping);
    let matched = match how & PLAIN {
        0 => matcher.search(from, how & ANCHORS != 0)?,
        _ => matcher.search_plain(from, pattern)?,
    };
    let Some(matched) = matched else { return Ok(NO_MATCH) };
    let mut places = found.chunks_exact_mut(2);
    let mut write = |start: u32, other: i32| {
        if let Some(place) = places.next() {
            place.copy_from_slice(&[start as i32, other]);
        }
    };
    write(matched.start, matched.end as i32);
    for capture in matcher.captures() {
        write(
            capture.start,
            match capture.length {
                CaptureLength::Unfinished if how & CAPTURES != 0 => {
                    return Err(PatternError::UnfinishedCapture);
                }
                CaptureLength::Unfinished => UNFINISHED,
                CaptureLength::Position => POSITION,
                CaptureLength::Bytes(length) => length as i32,
            },
        );
    }
    Ok(matcher.captures().len() as i32)
}
