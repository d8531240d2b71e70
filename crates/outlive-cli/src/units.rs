//! Durations and sizes as people write them.

use std::time::Duration;

/// `30s`, `200ms`, `2m`, `1h`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text);
    let unit = match unit {
        "ms" => Duration::from_millis(1),
        "s" => Duration::from_secs(1),
        "m" | "min" => Duration::from_secs(60),
        "h" => Duration::from_secs(3600),
        "" => return Err("a duration needs a unit: 200ms, 30s, 2m or 1h".into()),
        _ => {
            return Err(format!(
                "there is no unit {unit:?}; durations are 200ms, 30s, 2m or 1h"
            ));
        }
    };
    let number = number
        .parse::<f64>()
        .ok()
        .filter(|n| (0.0..1e9).contains(n));
    let number = number.ok_or("a duration is a number and a unit: 200ms, 30s, 2m or 1h")?;
    Ok(unit.mul_f64(number))
}

/// A duration, or `off`.
pub fn duration_or_off(text: &str) -> Result<MaybeDuration, String> {
    match text {
        "off" | "none" => Ok(MaybeDuration(None)),
        _ => duration(text).map(|duration| MaybeDuration(Some(duration))),
    }
}

/// What [`duration_or_off`] reads. (A bare `Option` would mean that the flag may be absent.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaybeDuration(pub Option<Duration>);

/// `64MiB`, `10MB`, `512KiB`, or plain bytes.
pub fn size(text: &str) -> Result<usize, String> {
    let (number, unit) = split(text);
    let unit: usize = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "kib" | "k" => 1 << 10,
        "mib" | "m" => 1 << 20,
        "gib" | "g" => 1 << 30,
        _ => {
            return Err(format!(
                "there is no unit {unit:?}; sizes are 64MiB, 10MB, 512KiB or 4096"
            ));
        }
    };
    let number = number
        .parse::<usize>()
        .map_err(|_| "a size is a whole number and a unit: 64MiB, 10MB")?;
    number
        .checked_mul(unit)
        .ok_or_else(|| "that is more than this machine can address".into())
}

/// The number in front and the unit behind it.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(duration("200ms"), Ok(Duration::from_millis(200)));
        assert_eq!(duration("1.5 s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration_or_off("off"), Ok(MaybeDuration(None)));
        for bad in [
            "",
            "5",
            "s",
            "5 parsecs",
            "-1s",
            "1e400s",
            "9999999999999h",
            "..s",
            "NaNs",
        ] {
            assert!(duration(bad).is_err(), "{bad}");
            assert!(duration_or_off(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(size("64MiB"), Ok(64 << 20));
        assert_eq!(size("10MB"), Ok(10_000_000));
        assert_eq!(size("4096"), Ok(4096));
        for bad in [
            "",
            "MiB",
            "1.5MiB",
            "-1",
            "1XB",
            "99999999999999999999",
            "18446744073709551615k",
        ] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }
}
