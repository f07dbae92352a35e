//! The calendar over real changes of clocks: an hour in Europe and America, half an hour on Lord Howe, a day that Samoa left out, and
//! zones whose offset is no whole number of hours. Each fault here is one that other schedulers had (B42).

use std::time::{Duration, Instant};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use time::macros::datetime;
use turno_contract::{DueSchedule, ErrorKind, Missed};

use super::{Calendar, plan};

const HOUR: i64 = 3600;

fn calendar(cron: &str, zone: &str) -> Calendar {
    Calendar::new(cron, zone).unwrap_or_else(|error| panic!("{cron} in {zone}: {error}"))
}

fn at(text: &str) -> OffsetDateTime {
    OffsetDateTime::parse(text, &Rfc3339).expect("an instant")
}

/// Every instant after the one and at most the other.
fn between(calendar: &Calendar, after: OffsetDateTime, until: OffsetDateTime) -> Vec<OffsetDateTime> {
    let mut found = Vec::new();
    let mut last = after;
    while let Some(next) = calendar.next_after(last).filter(|next| *next <= until) {
        assert!(next > last, "{next} is not after {last}");
        found.push(next);
        last = next;
    }
    found
}

#[track_caller]
fn assert_runs(cron: &str, zone: &str, after: &str, until: &str, expected: &[&str]) {
    let calendar = calendar(cron, zone);
    let expected: Vec<OffsetDateTime> = expected.iter().map(|text| at(text)).collect();
    assert_eq!(between(&calendar, at(after), at(until)), expected, "{cron} in {zone}");
    // The same if nobody looked until it was over, and if somebody looked every minute.
    assert_eq!(calendar.newest(at(after), at(until), 1000), expected, "{cron} in {zone}, looked at once");
    let mut looked = Vec::new();
    let mut last = at(after);
    while last < at(until) {
        let now = (last + Duration::from_secs(60)).min(at(until));
        looked.extend(calendar.newest(last, now, 1000));
        last = now;
    }
    assert_eq!(looked, expected, "{cron} in {zone}, looked at every minute");
}

/// Rule K7, B42.
#[test]
fn a_time_that_the_clock_skips_runs_once_at_the_first_instant_after_the_gap() {
    let berlin = ("2025-03-29T12:00:00+01:00", "2025-03-31T00:00:00+02:00");
    for cron in ["0 2 * * *", "30 2 * * *", "59 2 * * *", "*/10 2 * * *", "0 2-2 * * *", "15,45 30 2 * * *"] {
        assert_runs(cron, "Europe/Berlin", berlin.0, berlin.1, &["2025-03-30T03:00:00+02:00"]);
    }
    assert_runs("0 3 * * *", "Europe/Berlin", berlin.0, berlin.1, &["2025-03-30T03:00:00+02:00"]);
    assert_runs(
        "30 2,3 * * *",
        "Europe/Berlin",
        berlin.0,
        berlin.1,
        &["2025-03-30T03:00:00+02:00", "2025-03-30T03:30:00+02:00"],
    );
    // What other schedulers take for an interval, and lose.
    assert_runs(
        "30 2,14 * * *",
        "Europe/Berlin",
        berlin.0,
        berlin.1,
        &["2025-03-29T14:30:00+01:00", "2025-03-30T03:00:00+02:00", "2025-03-30T14:30:00+02:00"],
    );
    for cron in ["0 2 * * *", "30 2 * * *", "59 2 * * *"] {
        let (after, until) = ("2025-03-08T12:00:00-05:00", "2025-03-10T00:00:00-04:00");
        assert_runs(cron, "America/New_York", after, until, &["2025-03-09T03:00:00-04:00"]);
    }
    let howe = ("2025-10-04T12:00:00+10:30", "2025-10-06T00:00:00+11:00");
    for (cron, expected) in [
        ("0 2 * * *", "2025-10-05T02:30:00+11:00"),
        ("29 2 * * *", "2025-10-05T02:30:00+11:00"),
        ("30 2 * * *", "2025-10-05T02:30:00+11:00"),
        ("59 2 * * *", "2025-10-05T02:59:00+11:00"),
    ] {
        assert_runs(cron, "Australia/Lord_Howe", howe.0, howe.1, &[expected]);
    }
}

/// Rule K7: midnight itself was skipped in Brazil, and all of the 30th of December 2011 in Samoa.
#[test]
fn a_skipped_midnight_and_a_skipped_day_run_once() {
    let brazil = ("2018-11-03T12:00:00-03:00", "2018-11-05T12:00:00-02:00");
    assert_runs(
        "0 0 * * *",
        "America/Sao_Paulo",
        brazil.0,
        brazil.1,
        &["2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"],
    );
    let samoa = ("2011-12-29T00:00:00-10:00", "2012-01-01T00:00:00+14:00");
    assert_runs(
        "0 6 * * *",
        "Pacific/Apia",
        samoa.0,
        samoa.1,
        &["2011-12-29T06:00:00-10:00", "2011-12-31T00:00:00+14:00", "2011-12-31T06:00:00+14:00"],
    );
    let day = between(&calendar("0 * * * *", "Pacific/Apia"), at(samoa.0), at(samoa.1));
    assert_eq!(day.len(), 48, "every hour once, and none for the day that was not");
}

/// Rule K7.
#[test]
fn a_time_that_comes_twice_runs_the_first_time() {
    let berlin = ("2025-10-25T12:00:00+02:00", "2025-10-27T00:00:00+01:00");
    assert_runs("30 2 * * *", "Europe/Berlin", berlin.0, berlin.1, &["2025-10-26T02:30:00+02:00"]);
    assert_runs(
        "0,30 2 * * *",
        "Europe/Berlin",
        berlin.0,
        berlin.1,
        &["2025-10-26T02:00:00+02:00", "2025-10-26T02:30:00+02:00"],
    );
    assert_runs(
        "0 */3 * * *",
        "Europe/Berlin",
        "2025-10-26T00:00:00+02:00",
        "2025-10-26T10:00:00+01:00",
        &["2025-10-26T03:00:00+01:00", "2025-10-26T06:00:00+01:00", "2025-10-26T09:00:00+01:00"],
    );
    let york = ("2025-11-01T12:00:00-04:00", "2025-11-03T00:00:00-05:00");
    assert_runs("30 1 * * *", "America/New_York", york.0, york.1, &["2025-11-02T01:30:00-04:00"]);
    let howe = ("2026-04-04T12:00:00+11:00", "2026-04-06T00:00:00+10:30");
    for (cron, expected) in [
        ("29 1 * * *", "2026-04-05T01:29:00+11:00"),
        ("30 1 * * *", "2026-04-05T01:30:00+11:00"),
        ("45 1 * * *", "2026-04-05T01:45:00+11:00"),
        ("0 2 * * *", "2026-04-05T02:00:00+10:30"),
    ] {
        assert_runs(cron, "Australia/Lord_Howe", howe.0, howe.1, &[expected]);
    }
}

/// Rules K7, K4: looked at within the second pass, the first one is over.
#[test]
fn looking_within_the_second_pass_repeats_nothing() {
    let calendar = calendar("*/10 2 * * *", "Europe/Berlin");
    let second_pass = at("2025-10-26T02:15:00+01:00");
    assert_eq!(calendar.next_after(second_pass), Some(at("2025-10-27T02:00:00+01:00")));
    assert_eq!(calendar.next_after(at("2025-10-26T02:15:00+02:00")), Some(at("2025-10-26T02:20:00+02:00")));
    assert_eq!(
        calendar.newest(at("2025-10-26T02:45:00+02:00"), second_pass, 9),
        vec![at("2025-10-26T02:50:00+02:00")]
    );
}

/// Rule K7, B42: one run a day in every zone, whatever its clock does; never two within half a day.
#[test]
fn a_daily_schedule_runs_once_a_day_all_year() {
    let zones = [
        "UTC",
        "Europe/Berlin",
        "Europe/Dublin",
        "America/New_York",
        "America/St_Johns",
        "Australia/Lord_Howe",
        "Asia/Kathmandu",
        "Asia/Kolkata",
        "Pacific/Chatham",
        "Africa/Casablanca",
        "Africa/Cairo",
    ];
    for zone in zones {
        for cron in ["0 0 * * *", "0 2 * * *", "30 2 * * *", "59 2 * * *", "30 1 * * *", "45 3 * * *"] {
            let calendar = calendar(cron, zone);
            let zone_of = jiff::tz::TimeZone::get(zone).expect("a zone");
            let year = |year: i16| {
                let midnight = jiff::civil::date(year, 1, 1).to_zoned(zone_of.clone()).expect("a day");
                OffsetDateTime::from_unix_timestamp(midnight.timestamp().as_second()).expect("an instant")
            };
            let runs =
                between(&calendar, year(2025) - Duration::from_secs(1), year(2026) - Duration::from_secs(1));
            assert_eq!(runs.len(), 365, "{cron} in {zone}");
            for pair in runs.windows(2) {
                let apart = (pair[1] - pair[0]).whole_seconds();
                assert!(
                    (22 * HOUR..=26 * HOUR).contains(&apart),
                    "{cron} in {zone}: {} then {}",
                    pair[0],
                    pair[1]
                );
            }
        }
    }
}

/// Rule K7, B42.
#[test]
fn what_runs_in_every_hour_goes_by_elapsed_time() {
    let (after, until) = (datetime!(2025-01-01 0:00 UTC), datetime!(2026-01-01 0:00 UTC));
    let table = [
        ("*/15 * * * *", 900, ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]),
        ("0 * * * *", HOUR, ["Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Africa/Casablanca"]),
        ("30 0-23 * * *", HOUR, ["Europe/Berlin", "America/St_Johns", "Pacific/Chatham", "Africa/Cairo"]),
    ];
    for (cron, apart, zones) in table {
        for zone in zones {
            let runs = between(&calendar(cron, zone), after, until);
            let odd = runs.windows(2).find(|pair| (pair[1] - pair[0]).whole_seconds() != apart);
            assert_eq!(odd, None, "{cron} in {zone}");
            assert_eq!(runs.len() as i64, 365 * 86_400 / apart, "{cron} in {zone}");
        }
    }
    // Half an hour's change leaves no hourly rhythm; what the wall clock shows is what runs.
    assert_runs(
        "0 * * * *",
        "Australia/Lord_Howe",
        "2025-10-05T00:30:00+10:30",
        "2025-10-05T04:00:00+11:00",
        &["2025-10-05T01:00:00+10:30", "2025-10-05T03:00:00+11:00", "2025-10-05T04:00:00+11:00"],
    );
}

/// Rule K7: the arithmetic against a look at every single minute.
#[test]
fn minute_by_minute_the_wall_clock_says_the_same() {
    for (zone, from) in [
        ("Europe/Berlin", datetime!(2025-03-29 22:00 UTC)),
        ("Europe/Berlin", datetime!(2025-10-25 22:00 UTC)),
        ("Australia/Lord_Howe", datetime!(2025-10-04 12:00 UTC)),
        ("Australia/Lord_Howe", datetime!(2026-04-04 12:00 UTC)),
        ("Asia/Kathmandu", datetime!(2025-06-01 0:00 UTC)),
    ] {
        let zone_of = jiff::tz::TimeZone::get(zone).expect("a zone");
        let minutes = (1..=8 * 60).map(|minute| from + Duration::from_secs(60 * minute));
        let shown = minutes.filter(|at| {
            let at = jiff::Timestamp::from_second(at.unix_timestamp()).expect("an instant");
            zone_of.to_datetime(at).minute() % 7 == 0
        });
        let expected: Vec<OffsetDateTime> = shown.collect();
        let until = from + Duration::from_secs(8 * 3600);
        assert_eq!(between(&calendar("*/7 * * * *", zone), from, until), expected, "{zone} from {from}");
    }
}

/// Rule K4: ten years of seconds are as little work as one of them.
#[test]
fn after_a_long_outage_the_newest_are_found_at_once() {
    let (after, until) = (datetime!(2015-01-01 0:00 UTC), datetime!(2025-01-01 0:00:00.5 UTC));
    let begun = Instant::now();
    let seconds = calendar("* * * * * *", "Europe/Berlin").newest(after, until, 3);
    let expected = [2, 1, 0].map(|ago| datetime!(2025-01-01 0:00 UTC) - Duration::from_secs(ago));
    assert_eq!(seconds, expected);
    let rare = calendar("* * * 29 2 *", "America/New_York").newest(after, until, 100);
    assert_eq!((rare.len(), rare[99]), (100, at("2024-02-29T23:59:59-05:00")));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

fn due(missed: Missed, done_until: OffsetDateTime) -> DueSchedule {
    DueSchedule {
        name: "s".into(),
        cron: "0 6 * * *".into(),
        zone: "Europe/Berlin".into(),
        missed,
        revision: 7,
        done_until,
        next_at: done_until,
    }
}

/// Rule K4.
#[test]
fn missed_instants_are_made_up_for_by_policy() {
    let done_until = at("2025-03-27T06:00:00+01:00");
    let four_days = ["28T06:00:00+01:00", "29T06:00:00+01:00", "30T06:00:00+02:00", "31T06:00:00+02:00"];
    let four_days = four_days.map(|day| at(&format!("2025-03-{day}")));
    let now = at("2025-03-31T09:00:00.25+02:00");
    let table: [(Missed, &[OffsetDateTime]); 5] = [
        (Missed::Skip, &[]),
        (Missed::Latest, &four_days[3..]),
        (Missed::All(1), &four_days[3..]),
        (Missed::All(3), &four_days[1..]),
        (Missed::All(100), &four_days),
    ];
    for (missed, expected) in table {
        let firing = plan(&due(missed, done_until), now).unwrap();
        assert_eq!(firing.instants, expected, "{missed}");
        assert_eq!((firing.until, firing.revision), (now, 7));
        assert_eq!(firing.next_at, Some(at("2025-04-01T06:00:00+02:00")));
    }
    // In time is in time, also for who makes up for nothing.
    let soon = at("2025-03-31T06:00:59.9+02:00");
    assert_eq!(plan(&due(Missed::Skip, done_until), soon).unwrap().instants, four_days[3..]);
    // New, and none has come: only the next instant is known now.
    let firing = plan(&due(Missed::Latest, now), now).unwrap();
    assert_eq!((firing.instants, firing.next_at), (vec![], Some(at("2025-04-01T06:00:00+02:00"))));
}

/// Rule K7.
#[test]
fn expressions_are_read_with_names_and_seconds() {
    let from = datetime!(2025-06-04 10:00:30 UTC);
    for (cron, next) in [
        ("* * * * * *", datetime!(2025-06-04 10:00:31 UTC)),
        ("*/20 * * * * *", datetime!(2025-06-04 10:00:40 UTC)),
        ("* * * * *", datetime!(2025-06-04 10:01 UTC)),
        ("@hourly", datetime!(2025-06-04 11:00 UTC)),
        ("@daily", datetime!(2025-06-05 0:00 UTC)),
        ("0 6 * * MON-FRI", datetime!(2025-06-05 6:00 UTC)),
        ("0 6 * JUL SUN", datetime!(2025-07-06 6:00 UTC)),
        ("0 0 L * *", datetime!(2025-06-30 0:00 UTC)),
        ("0 9 * * MON#2", datetime!(2025-06-09 9:00 UTC)),
        ("0 0 29 2 *", datetime!(2028-02-29 0:00 UTC)),
        ("0 0 0 1 1 * 2030", datetime!(2030-01-01 0:00 UTC)),
    ] {
        assert_eq!(calendar(cron, "UTC").next_after(from), Some(next), "{cron}");
    }
}

/// Rules K7, E9.
#[test]
fn what_cannot_be_read_is_refused_by_name() {
    for cron in [
        "",
        "* * * *",
        "* * * * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "every day",
        "@reboot",
        "5-1 * * * *",
    ] {
        let error = Calendar::new(cron, "UTC").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.message().contains(&format!("{cron:?}")), "{error}");
    }
    for zone in ["", "Berlin", "Europe/Atlantis", "../../etc/passwd", "+01:00"] {
        let error = Calendar::new("* * * * *", zone).unwrap_err();
        assert!(error.message().contains(&format!("{zone:?} is no time zone")), "{error}");
    }
}

#[test]
fn what_never_comes_has_no_next_instant() {
    let begun = Instant::now();
    for cron in ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 0 1 1 * 2020"] {
        for zone in ["UTC", "Europe/Berlin"] {
            assert_eq!(calendar(cron, zone).next_after(datetime!(2025-06-04 10:00 UTC)), None, "{cron}");
        }
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}
