// SPDX-License-Identifier: GPL-2.0
/*
 * Holds a CPU for a known time, for tests of irq-off and watchdog.
 *
 * Write "CPU MS WHAT" to /sys/module/hold/parameters/hold: a kernel thread on that CPU spins for MS
 * milliseconds, at most 60000, with interrupts off (WHAT is `irqs`) or with preemption off
 * (`preemption`). The write returns when the time is over; a read returns the nanoseconds that the
 * thread measured, and its start time by CLOCK_MONOTONIC.
 */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/kernel.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/timekeeping.h>

#define MS_MAX 60000

struct hold {
	unsigned int ms;
	bool irqs;
	u64 began, held;
	struct completion done;
};

static DEFINE_MUTEX(lock);
static u64 last_held, last_began;

static noinline void hold_cpu(u64 ns)
{
	u64 end = ktime_get_ns() + ns;

	/* Not local_clock(), which needs the ticks of this CPU where the TSC is unstable. */
	while (ktime_get_ns() < end)
		cpu_relax();
}

static noinline int hold_thread(void *data)
{
	struct hold *hold = data;
	u64 before, ns = hold->ms * 1000000ull;

	hold->began = ktime_get_ns();
	preempt_disable();
	before = ktime_get_ns();
	if (hold->irqs) {
		unsigned long flags;

		local_irq_save(flags);
		hold_cpu(ns);
		hold->held = ktime_get_ns() - before;
		local_irq_restore(flags);
	} else {
		hold_cpu(ns);
		hold->held = ktime_get_ns() - before;
	}
	preempt_enable();
	complete(&hold->done);
	return 0;
}

static int hold_set(const char *text, const struct kernel_param *kp)
{
	struct hold hold = {};
	struct task_struct *thread;
	unsigned int cpu;
	char what[16];

	if (sscanf(text, "%u %u %15s", &cpu, &hold.ms, what) != 3)
		return -EINVAL;
	hold.irqs = !strcmp(what, "irqs");
	if (!hold.irqs && strcmp(what, "preemption"))
		return -EINVAL;
	if (hold.ms > MS_MAX || cpu >= nr_cpu_ids || !cpu_online(cpu))
		return -EINVAL;
	init_completion(&hold.done);
	thread = kthread_create(hold_thread, &hold, "hold/%u", cpu);
	if (IS_ERR(thread))
		return PTR_ERR(thread);
	mutex_lock(&lock);
	kthread_bind(thread, cpu);
	wake_up_process(thread);
	wait_for_completion(&hold.done);
	last_held = hold.held;
	last_began = hold.began;
	mutex_unlock(&lock);
	return 0;
}

static int hold_get(char *text, const struct kernel_param *kp)
{
	return scnprintf(text, PAGE_SIZE, "%llu %llu\n", last_held, last_began);
}

static const struct kernel_param_ops ops = { .set = hold_set, .get = hold_get };

module_param_cb(hold, &ops, NULL, 0600);
MODULE_DESCRIPTION("Holds a CPU for a known time");
MODULE_LICENSE("GPL");
