//! Tests of the view, drawn on a terminal in memory.

use super::keys::Key;
use super::paint::{PaintContext, paint};
use super::view::{Page, View, ViewRequest};
use crate::base::report::cell::Cell;
use crate::base::report::coverage::Coverage;
use crate::base::report::draw::{Align, Bucket, Column, DrawnHistogram, Report, Style, Table};
use crate::output::Colour;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Modifier;

fn column(title: &str, width: usize, align: Align) -> Column {
    let (title, key) = (title.to_owned(), title.to_owned());
    Column {
        title,
        key,
        width,
        align,
        decimals: None,
        shrinks: false,
        arrow: false,
        json_only: false,
        spare: false,
        metric: Default::default(),
    }
}

/// Returns a table of `top`: pid, two sums, name.
fn table(rows: &[(i128, i128, i128, &str)]) -> Report {
    let cells = |&(pid, switches, runtime, comm): &(i128, i128, i128, &str)| {
        vec![
            Cell::whole(pid),
            Cell::whole(switches),
            Cell::whole(runtime),
            Cell::Text(comm.to_owned()),
        ]
    };
    Report::Table(Table {
        name: "kv".into(),
        title: None,
        style: Style::Top,
        samples: 9,
        hidden: 0,
        columns: vec![
            column("PID", 6, Align::Right),
            column("SWITCHES", 8, Align::Right),
            column("RUNTIME", 8, Align::Right),
            column("COMM", 0, Align::Left),
        ],
        rows: rows.iter().map(cells).collect::<Vec<_>>().into(),
    })
}

fn view(parts: Vec<Report>) -> View {
    let mut view = View::default();
    view.show(Page { title: "perilune - 09:00:01  sample 9 events".into(), parts });
    view
}

fn usual() -> View {
    view(vec![table(&[(200, 3, 90, "redis"), (100, 7, 50, "nginx"), (0, 5, 10, "swapper/1")])])
}

fn draw(view: &View, columns: u16, rows: u16, printed: &[&str]) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    let around = PaintContext {
        printed: printed.iter().map(|line| (*line).to_owned()).collect(),
        pages: 512,
        colour: Colour::Never,
    };
    terminal.draw(|frame| paint(view, &around, frame.area(), frame.buffer_mut())).unwrap();
    terminal
}

/// Returns the rows of the screen, without trailing blanks.
fn lines(view: &View) -> Vec<String> {
    let terminal = draw(view, 80, 9, &[]);
    let buffer = terminal.backend().buffer();
    let row = |y| (0..80).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..9).map(|y| row(y).trim_end().to_owned()).collect()
}

/// Returns the names in the order shown.
fn names(view: &View) -> Vec<String> {
    let rows = lines(view)[3..8].to_vec();
    let full = rows.into_iter().filter(|row| !row.is_empty());
    full.map(|row| row.split_whitespace().last().unwrap_or_default().to_owned()).collect()
}

fn press(view: &mut View, keys: &str) {
    for c in keys.chars() {
        let key = match c {
            '\n' => Key::Enter,
            '\t' => Key::Tab,
            '\x1b' => Key::Escape,
            '\x08' => Key::Backspace,
            c => Key::Char(c),
        };
        assert_eq!(view.press(key), ViewRequest::Draw);
    }
}

#[test]
fn a_long_name_leaves_room_for_the_values() {
    let mut part = table(&[(200, 3, 90, "redis"), (100, 7, 50, "nginx")]);
    if let Report::Table(table) = &mut part {
        table.rows.get_mut(0).unwrap()[0] = Cell::Text("/kubepods.slice".repeat(20));
    }
    let text = draw(&view(vec![part]), 60, 12, &[]).backend().to_string();
    assert!(
        text.contains("SWITCHES") && text.contains("redis") && text.contains("nginx"),
        "{text}"
    );
    assert!(text.contains('\u{2026}'), "{text}");
}

#[test]
fn a_report_is_drawn_between_its_title_and_the_keys() {
    let expected = [
        "perilune - 09:00:01  sample 9 events",
        "coverage: nothing missed",
        "   PID SWITCHES  RUNTIME COMM",
        "   200        3       90 redis",
        "   100        7       50 nginx",
        "     0        5       10 swapper/1",
        "",
        "",
        "q quit  space pause  < > sort  r reverse  / filter  Esc all  arrows  Tab table",
    ];
    let lines = lines(&usual());
    assert_eq!(lines, expected);
}

#[test]
fn keys_sort_by_each_column_in_turn_and_then_as_the_monitor_does() {
    let mut view = usual();
    let mut orders = Vec::new();
    for _ in 0..5 {
        press(&mut view, ">");
        orders.push((lines(&view)[1].clone(), names(&view).join(" ")));
    }
    let by = |title: &str| format!("coverage: nothing missed  [by {title}]");
    let expected = [
        (by("PID"), "redis nginx swapper/1"),
        (by("SWITCHES"), "nginx swapper/1 redis"),
        (by("RUNTIME"), "redis nginx swapper/1"),
        // Text sorts in ascending order.
        (by("COMM"), "nginx redis swapper/1"),
        ("coverage: nothing missed".to_owned(), "redis nginx swapper/1"),
    ];
    let expected = expected.map(|(status, names)| (status, names.to_owned()));
    assert_eq!(orders, expected);
    press(&mut view, "<");
    assert_eq!(names(&view).join(" "), "nginx redis swapper/1");
    press(&mut view, "r");
    assert_eq!(names(&view).join(" "), "swapper/1 redis nginx");
    let terminal = draw(&view, 84, 9, &[]);
    let sorted = terminal.backend().buffer()[(25, 2)].modifier;
    assert!(sorted.contains(Modifier::UNDERLINED), "{sorted:?}");
}

#[test]
fn a_filter_keeps_matching_rows_until_escape() {
    let mut view = usual();
    press(&mut view, "/");
    press(&mut view, "NGq\x08");
    assert!(lines(&view)[8].starts_with("/NG"), "{}", lines(&view)[8]);
    // A key that otherwise quits is a letter here.
    assert_eq!(names(&view), ["nginx"]);
    press(&mut view, "\n");
    assert!(lines(&view)[1].ends_with("[/NG]"));
    press(&mut view, "\x1b");
    assert_eq!(names(&view).len(), 3);
    press(&mut view, "/10");
    assert_eq!(names(&view), ["nginx", "swapper/1"]);
    press(&mut view, "\x1b");
    assert!(!view.typing);
    assert_eq!(names(&view).len(), 3);
}

#[test]
fn a_pause_freezes_the_report_and_resuming_shows_the_newest() {
    let mut view = usual();
    press(&mut view, " ");
    for comm in ["first", "second"] {
        let parts = vec![table(&[(1, 1, 1, comm)])];
        view.show(Page { title: "later".into(), parts });
    }
    assert_eq!(names(&view).len(), 3);
    assert!(lines(&view)[1].ends_with("[paused]"));
    press(&mut view, " ");
    assert_eq!((names(&view), &*lines(&view)[0]), (vec!["second".to_owned()], "later"));
}

#[test]
fn losses_are_shown_with_the_remedy() {
    let mut view = usual();
    view.cover(&Coverage { events: 5, lost: 12, exited: 3, ..Coverage::default() });
    let now = "coverage: 12 lost (now 12 lost); a larger ring loses less: -m 1024";
    assert_eq!(lines(&view)[1], now);
    view.cover(&Coverage { events: 5, ..Coverage::default() });
    assert_eq!(lines(&view)[1], "coverage: 12 lost; a larger ring loses less: -m 1024");
    let status = draw(&view, 84, 9, &[]).backend().buffer()[(0, 1)].modifier;
    assert!(status.contains(Modifier::BOLD));
}

#[test]
fn scrolling_ends_with_the_last_row() {
    let mut view = usual();
    view.press(Key::Down);
    assert_eq!(names(&view), ["nginx", "swapper/1"]);
    for key in [Key::End, Key::Down, Key::PageDown] {
        view.press(key);
        assert_eq!(names(&view), ["swapper/1"]);
    }
    // Fewer rows than were skipped.
    view.show(Page { title: String::new(), parts: vec![table(&[(1, 1, 1, "one")])] });
    assert_eq!(names(&view), ["one"]);
}

#[test]
fn tab_selects_the_next_part_and_printed_lines_are_at_the_bottom() {
    let hist = DrawnHistogram {
        name: "h".into(),
        title: "wait".into(),
        unit: "ns".into(),
        keys: vec![],
        buckets: vec![Bucket { low: 0, high: 1, count: 4 }],
        errors: vec![],
    };
    let mut view = view(vec![table(&[(1, 1, 1, "one")]), Report::Hist(hist)]);
    press(&mut view, "\t");
    let terminal = draw(&view, 84, 14, &["an event", "an alert"]);
    let buffer = terminal.backend().buffer();
    let row = |y| (0..80).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    assert!(row(2).contains("wait(ns)") && row(3).contains('*'), "{} {}", row(2), row(3));
    assert!(row(4).contains("SWITCHES") && row(5).contains("one"));
    assert!(row(11).starts_with("an event") && row(12).starts_with("an alert"));
}

#[test]
fn any_size_can_be_drawn() {
    let mut view = usual();
    press(&mut view, "/x");
    for columns in 0..9 {
        for rows in 0..9 {
            draw(&view, columns, rows, &["one", "two", "three"]);
        }
    }
}

#[test]
fn quit_suspend_and_redraw_are_returned_as_requests() {
    let mut view = usual();
    assert_eq!(view.press(Key::Char('q')), ViewRequest::Quit);
    assert_eq!(view.press(Key::Suspend), ViewRequest::Suspend);
    assert_eq!(view.press(Key::Redraw), ViewRequest::Redraw);
}
