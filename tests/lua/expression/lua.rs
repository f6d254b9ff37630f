//! Evaluates expressions like a script: compiled by `expr_of`, over records in batches.

use std::rc::Rc;
use std::sync::MutexGuard;

use perilune::base::event::slot::Slot;
use perilune::base::report::coverage::Coverage;
use perilune::base::report::draw::{Draw, Level, Stamp};
use perilune::decode::format::Format;
use perilune::event::catalog::Catalog;
use perilune::event::kind::{Event, Tracepoint};
use perilune::script::host::{Host, Rules, Setting};
use perilune::script::load::library::{Library, Script, ScriptOrigin};
use perilune::source::{Batch, Sink as _};

use super::record;

/// A catalog of the event, and of a second one with another offset of `si`.
struct TwoEvents;

impl Catalog for TwoEvents {
    fn describe(&self, name: &str) -> anyhow::Result<Rc<Event>> {
        let format = match name {
            record::EVENT => record::format(),
            _ => Format::parse("name: moved\nID: 8\nfield:int si; offset:60; size:4; signed:1;\n")?,
        };
        Ok(Rc::new(Event::new(name, Tracepoint { format })))
    }

    fn names(&self) -> anyhow::Result<Vec<String>> {
        Ok(vec![record::EVENT.to_owned(), "test:moved".to_owned()])
    }
}

/// An output that fails the test on an error and ignores everything else.
struct NoErrors;

impl Draw for NoErrors {
    fn note(&mut self, _: Stamp, level: Level, text: &str) {
        assert_ne!(level, Level::Error, "{text}");
    }
}

/// Returns the CPU of record `n`.
pub(crate) fn cpu(n: usize) -> u32 {
    [0, 1, 255, 8191][n % 4]
}

/// Returns the thread of record `n`.
pub(crate) fn tid(n: usize) -> u32 {
    1000 + n as u32
}

/// Returns the Lua string literal of a text.
pub(crate) fn quoted(text: &str) -> String {
    let byte = |b: u8| format!("\\{b:03}");
    format!("\"{}\"", text.bytes().map(byte).collect::<String>())
}

/// A host whose script's `init` is `body`, with a batch of the records; `_one` excludes any other
/// run meanwhile.
pub(crate) struct Run<'a> {
    pub(crate) host: Host,
    pub(crate) batch: Batch,
    records: &'a [Vec<u8>],
    _one: MutexGuard<'static, ()>,
}

impl<'a> Run<'a> {
    pub(crate) fn new(body: &str, records: &'a [Vec<u8>]) -> Run<'a> {
        let one = crate::alone();
        let text = format!(
            "local m = monitor {{ summary = \"measured\" }}
            function m.init()
              {body}
            end
            return m"
        );
        let mut host = Host::new(true).unwrap();
        let script = Script { name: "measured".to_owned(), origin: ScriptOrigin::Bundled, text };
        host.load(&script, &Library::default(), &[]).unwrap();
        let setting = Setting::of(Rc::new(TwoEvents));
        let options = host.lua().create_table().unwrap();
        host.begin(&options, &setting, Rules::default()).unwrap();
        host.context().set_output(Box::new(NoErrors));
        let batch = Batch::new(host.roles().len());
        host.attach(batch.addresses()).unwrap();
        Run { host, batch, records, _one: one }
    }

    /// Dispatches `count` events, cycling through the records.
    pub(crate) fn dispatch(&mut self, count: usize) {
        self.batch.clear();
        let roles = self.host.roles().len() as u16;
        for (n, record) in self.records.iter().enumerate().cycle().take(count) {
            for ev in 0..roles {
                self.batch.push(Slot {
                    time: 1e9 + n as f64,
                    pid: tid(n) - 1,
                    tid: tid(n),
                    cpu: cpu(n) as u16,
                    ip: 0xffff_ffff_8100_0000 + n as u64,
                    ev,
                    ..Slot::of(record)
                });
            }
        }
        // SAFETY: the records live in `self` and are as long as their format requires.
        unsafe { self.host.dispatch(&mut self.batch) };
    }
}

/// Runs a script over the records; `body` is its `init`, in which `out` is a file to write to.
/// Returns the text that was written, and the coverage.
pub(crate) fn run(body: &str, records: &[Vec<u8>]) -> (String, Coverage) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let file = quoted(&path.display().to_string());
    let body = format!("local out = io.open({file}, \"w\") out:setvbuf \"no\" {body}");
    let mut run = Run::new(&body, records);
    run.dispatch(records.len());
    let coverage = run.host.coverage(None);
    assert_eq!(coverage.errors, 0);
    (std::fs::read_to_string(&path).unwrap(), coverage)
}

/// Expressions per run: a handler is stopped after one second of CPU time.
const OF_A_RUN: usize = 50;

/// Returns the values of each expression for each record, as text made by Lua, and the number of
/// undefined ones. Evaluates each expression `repeats` more times, so that LuaJIT compiles it; all
/// results must be equal.
pub(crate) fn texts(
    expressions: &[String],
    records: &[Vec<u8>],
    repeats: u32,
) -> (Vec<Vec<String>>, u64) {
    let mut all = vec![Vec::new(); records.len()];
    let mut undefined = 0;
    for some in expressions.chunks(OF_A_RUN) {
        let (values, count) = some_texts(some, records, repeats);
        all.iter_mut().zip(values).for_each(|(all, values)| all.extend(values));
        undefined += count;
    }
    (all, undefined)
}

fn some_texts(
    expressions: &[String],
    records: &[Vec<u8>],
    repeats: u32,
) -> (Vec<Vec<String>>, u64) {
    let list: Vec<String> = expressions.iter().map(|text| quoted(text)).collect();
    let (text, coverage) = run(
        &format!(
            "local ev = evsel \"test:extremes\"
             local functions = {{}}
             local sources = {{ {} }}
             for i, source in ipairs(sources) do functions[i] = expr_of(source, ev) end
             local function shown(v) return type(v) == \"number\" and (\"%.17g\"):format(v) or v end
             ev:each(function(e)
               for i = 1, #functions do
                 local f = functions[i]
                 local fine, first = pcall(f, e)
                 if not fine then error(sources[i] .. '; ' .. first, 0) end
                 local last
                 for _ = 1, {repeats} do last = f(e) end
                 if last ~= first and last ~= nil then first = first .. \" compiled \" .. last end
                 out:write(shown(first), \"\\n\")
               end
             end)",
            list.join(", ")
        ),
        records,
    );
    let mut lines = text.split('\n').map(str::to_owned);
    let mut one = || lines.by_ref().take(expressions.len()).collect();
    let values = records.iter().map(|_| one()).collect();
    (values, coverage.undefined)
}

/// Like [`texts`] for numbers: returns the 64 bits that C would compute.
pub(crate) fn values(expressions: &[String], records: &[Vec<u8>], repeats: u32) -> Vec<Vec<i64>> {
    let (texts, _) = texts(expressions, records, repeats);
    let number = |(text, source): (&String, &String)| {
        assert_ne!(text, "-0", "{source}");
        let bits = text.strip_prefix("0x").map(|hex| u64::from_str_radix(hex, 16));
        match bits {
            Some(bits) => {
                bits.map(|bits| bits as i64).unwrap_or_else(|_| panic!("{source}: {text}"))
            }
            None => {
                let number: f64 = text.parse().unwrap_or_else(|_| panic!("{source}: {text}"));
                assert_eq!(number.fract(), 0.0, "{source}: {text}");
                number as i64
            }
        }
    };
    texts.iter().map(|line| line.iter().zip(expressions).map(number).collect()).collect()
}
