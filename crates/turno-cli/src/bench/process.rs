//! What processes cost, as the kernel counts it. It refuses to guess: a process that cannot be read counts nothing, and
//! the caller says so.

use std::fs;
use std::time::Duration;

/// Processor time of this process so far, all of its threads.
pub fn own_cpu() -> Duration {
    cpu_of("self").unwrap_or_default()
}

/// Processor time of another process of this machine; `None` if it cannot be read.
pub fn cpu(pid: u32) -> Option<Duration> {
    cpu_of(&pid.to_string())
}

/// The machine's load over the last minute.
pub fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or_default()
}

fn cpu_of(process: &str) -> Option<Duration> {
    let text = fs::read_to_string(format!("/proc/{process}/schedstat")).ok();
    // One thread's account where the kernel keeps it in nanoseconds; of several threads `stat` knows the sum.
    if process != "self"
        && let Some(nanos) = text.and_then(|text| text.split_whitespace().next()?.parse().ok())
    {
        return Some(Duration::from_nanos(nanos));
    }
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_counted() {
        let before = own_cpu();
        let mut sum = 0u64;
        while own_cpu() <= before {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(cpu(std::process::id()).is_some() && cpu(u32::MAX).is_none());
    }
}
