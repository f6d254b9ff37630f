//! Reads the value of one common option.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Result, anyhow, bail, ensure};

use super::{LEAST_INTERVAL_NS, MOST_PAGES};
use crate::base::text::units::{parse_duration_with_unit, parse_size};
use crate::output::parquet::{FILE_AGE, FILE_BYTES, ParquetSettings};
use crate::script::option::value::{OptionValue, OptionValues};
use crate::sys::machine::host_name;

/// Minimum of the size in `--rotate`.
const FILE_BYTES_MIN: u64 = 64 << 10;

/// Returns the settings of `--parquet` and `--rotate`. `$PERILUNE_HOST` replaces the name of this
/// machine.
///
/// # Errors
/// A value is invalid.
pub(super) fn parquet(values: &OptionValues) -> Result<Option<ParquetSettings>> {
    let rotate = text(values, "rotate");
    let Some(folder) = text(values, "parquet") else {
        ensure!(rotate.is_none(), "--rotate finishes the files of --parquet; give a folder, too");
        return Ok(None);
    };
    let host = std::env::var_os("PERILUNE_HOST").filter(|name| !name.is_empty());
    let host = host.map(|name| {
        name.into_string().map_err(|name| anyhow!("PERILUNE_HOST: {name:?} is not UTF-8"))
    });
    let host = host.transpose()?;
    let mut settings = ParquetSettings {
        folder: folder.into(),
        host: host.unwrap_or_else(host_name),
        size: FILE_BYTES,
        age: FILE_AGE,
    };
    let (mut size, mut age) = (None, None);
    for part in rotate.into_iter().flat_map(|list| list.split(',')) {
        let is_repeated = match (parse_duration_with_unit(part), parse_size(part)) {
            (Ok(ns), _) if ns > 0 => age.replace(Duration::from_nanos(ns)).is_some(),
            (_, Ok(bytes)) if bytes >= FILE_BYTES_MIN => size.replace(bytes).is_some(),
            (_, Ok(_)) => bail!("--rotate: `{part}` is too small; the minimum is 64KiB"),
            _ => bail!("--rotate: `{part}` is neither a size nor a time; for example 64MiB,60s"),
        };
        ensure!(
            !is_repeated,
            "--rotate: `{part}` is the second size or time; give one of each, such as 64MiB,60s"
        );
    }
    settings.size = size.unwrap_or(settings.size);
    settings.age = age.unwrap_or(settings.age);
    Ok(Some(settings))
}

/// Parses `[ADDR:]PORT`.
///
/// # Errors
/// The address or the port is invalid.
pub(super) fn scrape_address(text: &str) -> Result<SocketAddr> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    text.parse().map_err(|_| {
        anyhow!(
            "--prometheus: `{text}` is not [ADDR:]PORT; for example 9464, 0.0.0.0:9464 or [::1]:9464"
        )
    })
}

/// Parses `1%` or `0.5`: a percentage, returned as a share.
///
/// # Errors
/// It is not a number from 0.01 to 100.
pub(super) fn share(text: &str) -> Result<f64> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>();
    match number {
        Ok(percent) if (0.01..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => bail!("--budget: `{text}` is not a percentage from 0.01 to 100, such as 1%"),
    }
}

pub(super) fn text<'a>(values: &'a OptionValues, name: &str) -> Option<&'a str> {
    match values.get(name) {
        Some(OptionValue::Text(text) | OptionValue::Choice(text)) => Some(text),
        _ => None,
    }
}

/// Returns the value of a numeric option: bytes, nanoseconds, counts.
pub(super) fn number(values: &OptionValues, name: &str) -> Option<u64> {
    match values.get(name) {
        Some(OptionValue::Number(n)) => Some(*n as u64),
        Some(OptionValue::Count(n) | OptionValue::DurationNs(n) | OptionValue::Bytes(n)) => {
            Some(*n)
        }
        _ => None,
    }
}

/// Returns process or thread numbers in the order given, without duplicates.
pub(super) fn tasks(values: &OptionValues, name: &str) -> Result<Vec<u32>> {
    let Some(list) = text(values, name) else { return Ok(Vec::new()) };
    let mut tasks = Vec::new();
    for word in list.split(',').map(str::trim) {
        match word.parse::<i32>() {
            Ok(id) if id > 0 => {
                let id = id.unsigned_abs();
                if !tasks.contains(&id) {
                    tasks.push(id);
                }
            }
            _ if word.is_empty() => bail!("`{list}`: a number is missing; for example 1234,1240"),
            _ => bail!("`{word}` is not a PID or TID; for example 1234,1240"),
        }
    }
    Ok(tasks)
}

pub(super) fn interval(values: &OptionValues) -> Result<Option<u64>> {
    let ns = number(values, "interval");
    ensure!(
        ns.is_none_or(|ns| ns >= LEAST_INTERVAL_NS),
        "the shortest interval is 1ms; a number without a unit counts milliseconds"
    );
    Ok(ns)
}

pub(super) fn duration(values: &OptionValues) -> Result<Option<u64>> {
    let ns = number(values, "duration");
    ensure!(ns != Some(0), "must be greater than 0; omit it to run until Ctrl-C");
    Ok(ns)
}

pub(super) fn pages(values: &OptionValues, notes: &mut Vec<String>) -> Result<Option<u32>> {
    let Some(asked) = number(values, "mmap-pages") else { return Ok(None) };
    ensure!(asked <= MOST_PAGES, "{asked} pages are too many for a ring; at most {MOST_PAGES}");
    let pages = asked.next_power_of_two();
    if pages != asked {
        notes
            .push(format!("-m {asked}: the pages of a ring must be a power of two; using {pages}"));
    }
    Ok(u32::try_from(pages).ok())
}

pub(super) fn watermark(values: &OptionValues) -> Result<u8> {
    let percent = number(values, "watermark").unwrap_or_default();
    ensure!(percent <= 100, "{percent} is out of range; expected 0 to 100");
    Ok(percent as u8)
}
