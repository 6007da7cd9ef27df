// Rates are differences of counters between two readings. A reading is taken when somebody asks
// and the last one is old enough: a host that nobody watches costs nothing.
//
// syscalls: pread64 clock_gettime
#include "manager/host_load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

struct host_load {
	int stat, loadavg, statm;
	long ticks, page;
	int64_t at_us;
	uint64_t host_us, own_us; // CPU time then
	struct host_load_view view;
};

static bool host_load_text(int fd, char *room, size_t size)
{
	ssize_t got = pread(fd, room, size - 1, 0);

	room[got > 0 ? got : 0] = 0;
	return got > 0;
}

static fallible host_load_file(const char *path, int *out)
{
	*out = open(path, O_RDONLY | O_CLOEXEC);
	return *out < 0 ? err_sys(errno, "open %s", path) : OK;
}

fallible host_load_open(struct host_load **out)
{
	struct host_load *load = mem_new_of(struct host_load);

	load->ticks = sysconf(_SC_CLK_TCK);
	load->page = sysconf(_SC_PAGESIZE);
	load->view.cores_used = load->view.cores_daemon = -1;
	TRY(host_load_file("/proc/stat", &load->stat));
	TRY(host_load_file("/proc/loadavg", &load->loadavg));
	TRY(host_load_file("/proc/self/statm", &load->statm));
	(void)host_load_look(load, clock_us()); // the first interval begins
	*out = load;
	return OK;
}

// "cpu  user nice system idle iowait irq softirq steal guest …" in ticks: guest time is in user
// time already.
static uint64_t host_load_busy_us(const struct host_load *load)
{
	char text[512], *at = text + strlen("cpu ");
	uint64_t sum = 0;

	if (!host_load_text(load->stat, text, sizeof(text)) || strncmp(text, "cpu ", 4) != 0)
		return 0;
	for (int i = 0; i < 7; i++) {
		uint64_t value = strtoull(at, &at, 10);

		sum += i == 3 || i == 4 ? 0 : value;
	}
	return sum * 1000000 / (uint64_t)load->ticks;
}

static double host_load_rate(uint64_t before, uint64_t now, int64_t span_us)
{
	return now > before ? (double)(now - before) / (double)span_us : 0;
}

struct host_load_view host_load_look(struct host_load *load, int64_t now_us)
{
	struct timespec own = {0};
	uint64_t host_us, own_us;
	char text[128], *at = text;

	if (load->at_us && now_us - load->at_us < HOST_LOAD_MS * 1000)
		return load->view;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
	own_us = (uint64_t)own.tv_sec * 1000000 + (uint64_t)own.tv_nsec / 1000;
	host_us = host_load_busy_us(load);
	if (load->at_us) {
		load->view.cores_used = host_load_rate(load->host_us, host_us,
						       now_us - load->at_us);
		load->view.cores_daemon = host_load_rate(load->own_us, own_us,
							 now_us - load->at_us);
	}
	load->host_us = host_us;
	load->own_us = own_us;
	load->at_us = now_us;
	if (host_load_text(load->loadavg, text, sizeof(text)))
		load->view.load1 = strtod(text, NULL);
	if (host_load_text(load->statm, text, sizeof(text))) {
		(void)strtoull(at, &at, 10);
		load->view.daemon_memory = strtoull(at, NULL, 10) * (uint64_t)load->page;
	}
	return load->view;
}
