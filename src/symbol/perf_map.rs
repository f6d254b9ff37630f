//! Names of code that a process generated: the perf map that its just-in-time compiler writes.
//!
//! A line is `START SIZE NAME`, numbers in hexadecimal (tools/perf/Documentation/jit-interface.txt
//! of the kernel). The file is `/tmp/perf-PID.map`, with the `/tmp` and the PID that the process
//! itself sees: in a container both differ from those of perilune. Any user can write there, so the
//! file is used only if it belongs to root or to the owner of the process.
//!
//! Compilers append while they run, and reuse addresses: of two lines for one address the later one
//! is valid, and a file that has changed is read again. If a file is too large, its end is read: it
//! has the newest code. A process that has ended leaves its file: it is looked up below the root of
//! an ancestor of the process, or in perilune's own `/tmp`, unless it is older than the process.
//! The file is opened when the exit record of the process is handled, and read when it is needed:
//! it may be removed in between.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fs::{File, Metadata};
use std::io::{BufRead, BufReader, Read as _, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::SystemTime;

use hashbrown::HashMap;
use std::hash::RandomState;

use super::ranges::Ranges;
use crate::base::report::frame::{Frame, Space};
use crate::sys::clock::monotonic_ns;
use crate::sys::mapped_file::{Links, open_regular};
use crate::sys::tasks::{Inside, inside, living_thread};
use crate::task::programs::Programs;

/// Maximum number of bytes read from a file.
const SIZE_MAX: u64 = 64 << 20;

/// Maximum number of names of all processes together; about 100 bytes each.
const NAMES_MAX: usize = 2 << 20;

/// Maximum number of bytes of these names.
const BYTES_MAX: usize = 256 << 20;

/// Maximum number of bytes of a line; what is longer is not a line.
const LINE_MAX: u64 = 4 << 10;

/// Maximum number of processes whose maps are known, or known not to exist.
const PROCESSES_MAX: usize = 1024;

/// Maximum number of files of ended processes that are kept open until their names are needed.
const HELD_MAX: usize = 128;

/// Minimum time between two checks whether files have changed.
const LOOK_NS: u64 = 1_000_000_000;

/// Maximum number of ancestors whose `/tmp` is searched.
const ANCESTORS: usize = 8;

/// The perf maps of processes.
#[derive(Default)]
pub(super) struct PerfMaps {
    maps: RefCell<HashMap<Space, PerfMap, RandomState>>,
    /// Files of processes that have ended and were not looked up yet; the oldest first.
    held: RefCell<VecDeque<(Space, Found)>>,
    version: Cell<u64>,
    looked_ns: Cell<u64>,
    /// Duration of the last check, with what was read again.
    took_ns: Cell<u64>,
    /// Maximum of the bytes that were not read of the files known at a time.
    skipped: Cell<u64>,
}

#[derive(Default)]
struct PerfMap {
    names: Ranges<std::rc::Rc<str>>,
    /// Bytes of the names that were read.
    bytes: usize,
    /// The file that was read, and its state then; None if there was none.
    state: Option<State>,
    /// Bytes of the file that were not read because of the limits.
    skipped: u64,
}

/// Path, inode, size and modification time.
type State = (PathBuf, u64, u64, Option<SystemTime>);

impl PerfMaps {
    /// Appends the function of an address in memory without a file; returns false if none is known.
    pub(super) fn frame(
        &self,
        programs: &Programs,
        space: Space,
        address: u64,
        lookup: u64,
        out: &mut Vec<Frame>,
    ) -> bool {
        let mut maps = self.maps.borrow_mut();
        if !maps.contains_key(&space) {
            let room = Left::by(maps.values());
            if maps.len() >= PROCESSES_MAX || room.is_none() {
                maps.clear();
            }
            let room = room.unwrap_or(Left::ALL);
            let found = self.take_held(space).or_else(|| find(programs, space));
            maps.insert(space, PerfMap::read(found, room));
            self.count_skipped(&maps);
        }
        let Some(map) = maps.get(&space) else { return false };
        let Some((start, name)) = map.names.find(lookup) else { return false };
        let symbol = Some(name.clone());
        out.push(Frame { address, symbol, offset: address - start, ..Frame::default() });
        true
    }

    /// Returns how many bytes of files were not read because of the limits.
    pub(super) fn skipped(&self) -> u64 {
        self.skipped.get()
    }

    fn count_skipped(&self, maps: &HashMap<Space, PerfMap, RandomState>) {
        let now = maps.values().map(|map| map.skipped).sum();
        self.skipped.set(self.skipped.get().max(now));
    }

    /// Opens the file of a process that has ended, unless it has been read in its present state.
    pub(super) fn hold(&self, programs: &Programs, space: Space) {
        let Some(found) = find(programs, space) else { return };
        let state = Some(state(found.0.clone(), &found.1));
        if self.maps.borrow().get(&space).is_some_and(|map| map.state == state) {
            return;
        }
        let mut held = self.held.borrow_mut();
        held.push_back((space, found));
        if held.len() > HELD_MAX {
            held.pop_front();
        }
        drop(held);
        // The names read before are incomplete.
        if self.maps.borrow_mut().remove(&space).is_some() {
            self.version.set(self.version.get() + 1);
        }
    }

    fn take_held(&self, space: Space) -> Option<Found> {
        let mut held = self.held.borrow_mut();
        let at = held.iter().position(|(of, _)| *of == space)?;
        held.remove(at).map(|(_, found)| found)
    }

    /// Returns a number that grows when a file has changed or appeared: names of addresses looked
    /// up before may differ now.
    pub(super) fn version(&self, programs: &Programs) -> u64 {
        let now = monotonic_ns();
        // Limits the time for reading files again to a tenth, however much is written.
        let pause = LOOK_NS.max(self.took_ns.get().saturating_mul(9));
        if now.saturating_sub(self.looked_ns.get()) >= pause {
            let mut maps = self.maps.borrow_mut();
            let mut room = Left::by(maps.values()).unwrap_or(Left { names: 0, bytes: 0 });
            for (space, map) in maps.iter_mut() {
                let found = find(programs, *space);
                let state = found.as_ref().map(|(path, file)| state(path.clone(), file));
                // A file that is gone has been read before.
                if found.is_some() && state != map.state {
                    room.names += map.names.len();
                    room.bytes += map.bytes;
                    *map = PerfMap::read(found, room);
                    room.names -= map.names.len().min(room.names);
                    room.bytes -= map.bytes.min(room.bytes);
                    self.version.set(self.version.get() + 1);
                }
            }
            self.count_skipped(&maps);
            let end = monotonic_ns();
            self.looked_ns.set(end);
            self.took_ns.set(end.saturating_sub(now));
        }
        self.version.get()
    }
}

impl PerfMap {
    fn read(found: Option<Found>, room: Left) -> PerfMap {
        let Some((path, opened)) = found else { return PerfMap::default() };
        let mut map = PerfMap { state: Some(state(path, &opened)), ..PerfMap::default() };
        // Reads the file that was checked, not what its path leads to by now.
        let (file, metadata) = opened;
        map.take_end(BufReader::new(file), metadata.len(), SIZE_MAX, room);
        map
    }

    /// Adds the lines in the last `most` bytes of a file of this length, while there is room.
    fn take_end(&mut self, mut file: impl BufRead + Seek, length: u64, most: u64, room: Left) {
        self.skipped = length;
        let start = length.saturating_sub(most);
        // The byte before shows whether a line begins there; a part of a line is omitted.
        let before = u64::from(start > 0);
        if file.seek(SeekFrom::Start(start - before)).is_err() {
            return;
        }
        let mut reader = file.take(most.saturating_add(before));
        if start > 0 && reader.skip_until(b'\n').is_err() {
            return;
        }
        self.skipped = length.saturating_sub(self.take(reader, room));
    }

    /// Adds lines while there is room. Returns their size in bytes.
    fn take(&mut self, mut reader: impl BufRead, room: Left) -> u64 {
        let mut line = Vec::new();
        let mut taken = 0;
        // A line that is being written has no line break yet, and is read the next time.
        while self.names.len() < room.names
            && self.bytes < room.bytes
            && reader
                .by_ref()
                .take(LINE_MAX)
                .read_until(b'\n', &mut line)
                .is_ok_and(|read| read > 0)
        {
            if let Some((start, size, name)) = parse(&line) {
                self.bytes += name.len();
                self.names.put(start, size, name.into());
            }
            taken += line.len() as u64;
            line.clear();
        }
        taken
    }
}

/// Room for names: how many, and how many bytes.
#[derive(Clone, Copy)]
struct Left {
    names: usize,
    bytes: usize,
}

impl Left {
    const ALL: Left = Left { names: NAMES_MAX, bytes: BYTES_MAX };

    /// Returns the room that these leave; None if there is none.
    fn by<'a>(maps: impl Iterator<Item = &'a PerfMap>) -> Option<Left> {
        maps.into_iter().try_fold(Left::ALL, |left, map| {
            let names = left.names.checked_sub(map.names.len()).filter(|left| *left > 0)?;
            let bytes = left.bytes.checked_sub(map.bytes).filter(|left| *left > 0)?;
            Some(Left { names, bytes })
        })
    }
}

type Opened = (File, Metadata);

type Found = (PathBuf, Opened);

fn state(path: PathBuf, (_, metadata): &Opened) -> State {
    (path, metadata.ino(), metadata.len(), metadata.modified().ok())
}

/// Returns the map of a process, if it can be trusted.
fn find(programs: &Programs, space: Space) -> Option<Found> {
    let pid = programs.spaces.process(space)?;
    let root_of = |pid: u32| PathBuf::from(format!("/proc/{}/root", living_thread(pid)));
    // The exit record of a process that has just ended may not have arrived yet.
    let lives = programs.spaces.lives(space) && root_of(pid).metadata().is_ok();
    let noted = programs.inside(space);
    let inside = if lives { inside(pid) } else { None }.or(noted);
    let known = inside.unwrap_or(Inside { pid, owner: None, started: None });
    let name = format!("tmp/perf-{}.map", known.pid);
    let below_root = |pid: u32| root_of(pid).join(&name);
    let own = lives.then(|| below_root(pid));
    let ancestors = programs.spaces.ancestors(pid).take(ANCESTORS).map(below_root);
    // Without the process, only an equal PID inside and outside suggests that this is its `/tmp`.
    let here = (known.pid == pid).then(|| PathBuf::from("/").join(&name));
    let left = ancestors.chain(here).filter(|_| !lives);
    own.into_iter().chain(left).find_map(|path| {
        let file = open_regular(&path, Links::Refused).ok()?;
        let metadata = file.metadata().ok()?;
        let ours = metadata.uid() == 0 || Some(metadata.uid()) == known.owner;
        let older = |started| metadata.modified().is_ok_and(|modified| modified < started);
        let stale = !lives && known.started.is_some_and(older);
        (ours && !stale).then_some((path, (file, metadata)))
    })
}

/// Parses `START SIZE NAME` with a line break.
fn parse(line: &[u8]) -> Option<(u64, u64, &str)> {
    let line = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    let (start, rest) = line.split_once(' ')?;
    let (size, name) = rest.trim_start().split_once(' ')?;
    let hex = |text: &str| u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok();
    let name = name.trim();
    Some((hex(start)?, hex(size)?, name)).filter(|_| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_stops_at_the_limits() {
        let text: String = (0..100).map(|i| format!("{:x} 10 f{i:03}\n", i << 8)).collect();
        for (names, bytes, taken) in [(1000, 1000, 100), (10, 1000, 10), (1000, 20, 5)] {
            let mut map = PerfMap::default();
            map.take(text.as_bytes(), Left { names, bytes });
            assert_eq!(map.names.len(), taken);
        }
        let mut map = PerfMap::default();
        let long = format!("0 10 {}\n100 10 f\n", "x".repeat(LINE_MAX as usize));
        map.take(long.as_bytes(), Left::ALL);
        assert_eq!(
            (map.names.len(), map.names.find(0x105).map(|(start, _)| start)),
            (1, Some(0x100))
        );
    }

    #[test]
    fn the_newest_lines_of_a_large_file_are_read_and_the_rest_is_counted() {
        let text: String = (0..100).map(|i| format!("1000 10 f{i:03}\n{i:x}0000 10 g\n")).collect();
        let length = text.len() as u64;
        let line = "1000 10 f099\n630000 10 g\n".len() as u64;
        for (most, names, read) in [
            (length, 101, length),
            (length + 1000, 101, length),
            (2 * line, 3, 2 * line),
            (2 * line + 3, 3, 2 * line),
        ] {
            let mut map = PerfMap::default();
            map.take_end(std::io::Cursor::new(&text), length, most, Left::ALL);
            assert_eq!((map.names.len(), map.skipped), (names, length - read), "{most}");
            assert_eq!(map.names.find(0x1005).map(|(_, name)| &**name), Some("f099"));
        }
        let mut map = PerfMap::default();
        map.take_end(std::io::Cursor::new(&text), length, length, Left { names: 0, ..Left::ALL });
        assert_eq!((map.names.len(), map.skipped), (0, length));
    }

    #[test]
    fn a_line_is_start_size_and_a_name_with_blanks() {
        assert_eq!(
            parse(b"7f10 2a LazyCompile:*f a.js:1\n"),
            Some((0x7f10, 0x2a, "LazyCompile:*f a.js:1"))
        );
        assert_eq!(parse(b"0x10 0x20 f\n"), Some((0x10, 0x20, "f")));
        for line in
            [&b"7f10 2a unfinished"[..], b"7f10 2a \n", b"7f10\n", b"x y z\n", b"\xff\n", b"\n"]
        {
            assert_eq!(parse(line), None);
        }
    }
}
