//! Delays over time: counted for a picture, and kept one by one for the file behind it until somebody takes them.

use super::leaf::Leaf;
use crate::base::delay_map::DelayMap;

/// Delays that are kept at most between two takings: what a turn of the run can bring, 4 MiB.
const POINTS: usize = 1 << 18;

/// One delay: when it ended, since the run began, and how long it was; in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// When it ended.
    pub time: f64,
    /// How long it was.
    pub delay: f64,
}

/// The delays of a run.
#[derive(Debug, Default)]
pub struct HeatMap {
    map: DelayMap,
    points: Vec<Point>,
    keeps_points: bool,
    dropped: u64,
    disordered: u64,
}

impl HeatMap {
    /// From now on each delay is kept until it is taken.
    pub fn keep_points(&mut self) {
        self.keeps_points = true;
    }

    /// Adds one.
    #[inline]
    pub fn add(&mut self, point: Point) {
        if !self.map.add(point.time, point.delay) {
            self.disordered += 1;
        } else if self.keeps_points {
            match self.points.len() < POINTS {
                true => self.points.push(point),
                false => self.dropped += 1,
            }
        }
    }

    /// Gives what was kept since the last call.
    pub fn take_points(&mut self, mut take: impl FnMut(Point)) {
        self.points.drain(..).for_each(&mut take);
    }

    /// What is drawn.
    pub fn map(&self) -> &DelayMap {
        &self.map
    }

    /// Delays that were drawn but not kept, for want of room.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Negative values and NaN, which are neither: the ends of a pair came in the wrong order.
    pub fn disordered(&self) -> u64 {
        self.disordered
    }
}

impl Leaf for HeatMap {
    /// Doubles: the time, then the delay.
    #[inline(always)]
    fn take(&mut self, doubles: &[f64], _flags: u32) -> u32 {
        if let [time, delay] = *doubles {
            self.add(Point { time, delay });
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_kept_once_they_are_wanted_and_until_they_are_taken() {
        let point = |delay| Point { time: 1.0, delay };
        let mut heat = HeatMap::default();
        heat.add(point(1.0));
        heat.keep_points();
        [point(2.0), point(3.0), point(-1.0)].into_iter().for_each(|point| heat.add(point));
        let mut taken = Vec::new();
        heat.take_points(|point| taken.push(point.delay));
        heat.take_points(|_| panic!("they were taken"));
        assert_eq!((taken, heat.map().total(), heat.disordered()), (vec![2.0, 3.0], 3, 1));
    }

    #[test]
    fn what_nobody_takes_is_bounded_and_counted() {
        let mut heat = HeatMap::default();
        heat.keep_points();
        (0..POINTS + 7).for_each(|i| heat.add(Point { time: i as f64, delay: 1.0 }));
        assert_eq!((heat.points.len(), heat.dropped()), (POINTS, 7));
        assert_eq!(heat.map().total(), (POINTS + 7) as u64);
    }
}
