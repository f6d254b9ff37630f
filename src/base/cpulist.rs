//! cpulist
