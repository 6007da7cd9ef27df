// A file worker that was taken over: the test plays pid 1 and the file worker of a box that is
// nothing else.
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "box/files.h"
#include "box/private.h"
#include "os/fd.h"
#include "unit/loop/inside.h"

static struct box box;
static int pid1 = -1;	   // our end of the talk
static int ends[2];	   // of the file worker: the daemon's, ours
static const char *answer; // its first answer
static int gift = -1;	   // the fd that it passes

static void said(struct channel *channel, const struct talk *talk, int *fds, int count)
{
	CHECK(channel == &box.channel && box_file_worker_on_message(&box, talk, fds, count));
}

static void lost(struct channel *channel, const char *why)
{
	(void)channel;
	(void)why;
}

static void drained(struct channel *channel)
{
	(void)channel;
}

static void open_box(struct files *out)
{
	int talk[2];

	box = (struct box){.loop = inside_loop, .refs = 1000, .phase = BOX_ALIVE, .oom = -1};
	link_init(&box.workers);
	link_init(&box.execs);
	link_init(&box.draining);
	condition_init(&box.worker_free);
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, talk) == 0);
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
	pid1 = talk[1];
	box.channel.said = said;
	box.channel.lost = lost;
	box.channel.drained = drained;
	CHECK_OK(channel_open(&box.channel, inside_loop, talk[0]));
	*out = (struct files){.box = &box, .deadline = inside_now() + 400};
}

static void close_box(void)
{
	box_file_worker_end_all(&box);
	channel_close(&box.channel);
	fd_drop(&pid1);
	fd_drop(&ends[1]);
	inside_sleep(1);
}

static size_t say(enum fileop_kind kind, char room[512])
{
	struct fileop_reply words = {.kind = kind, .text = STR(""), .rest = STR("")};

	return fileop_encode_reply(&words, room, 512);
}

// pid 1 gives its end away at the question.
static void give_nth_worker(uint32_t nth)
{
	struct talk talk = {.kind = TALK_WORKER_IS, .conn = nth};
	char room[512];
	size_t len;

	while (recv(pid1, room, sizeof(room), MSG_DONTWAIT) < 0)
		inside_sleep(1);
	len = talk_encode(&talk, room, sizeof(room));
	CHECK(fd_send(pid1, room, len, &ends[0], 1, 0) > 0);
	fd_drop(&ends[0]);
}

static void give_worker(void *arg)
{
	(void)arg;
	give_nth_worker(1);
}

// And the file worker says one thing to the first request, with something beside it.
static void give_gift(void *arg)
{
	char room[512];
	enum fileop_kind kind = *answer == 'o' ? FILEOP_OPENED : FILEOP_DONE;
	size_t len = say(kind, room);

	give_worker(arg);
	while (recv(ends[1], (char[4096]){0}, 4096, MSG_DONTWAIT) < 0)
		inside_sleep(1);
	CHECK(fd_send(ends[1], room, len, &gift, gift >= 0, 0) > 0);
}

static unsigned ticks;
static bool ticking;

static void tick(void *arg)
{
	(void)arg;
	while (ticking) {
		ticks++;
		inside_sleep(1);
	}
}

static atomic_bool flooding;

static void *flood(void *arg)
{
	char room[512];
	size_t len = say(FILEOP_PORTS_ARE, room);

	(void)arg;
	while (atomic_load(&flooding) && send(ends[1], room, len, MSG_NOSIGNAL) >= 0)
		continue;
	return NULL;
}

TASK_TEST(
	floods,
	"a file worker that never stops talking takes nobody's turn, and no more time than it has")
{
	struct files files;
	struct fileop_port ports[4];
	pthread_t threads[3];
	int64_t began = inside_now();
	size_t count;

	open_box(&files);
	ticking = true;
	atomic_store(&flooding, true);
	ticks = 0;
	task_start(inside_loop, "pid 1", give_worker, NULL);
	task_start(inside_loop, "tick", tick, NULL);
	for (int i = 0; i < 3; i++)
		CHECK(pthread_create(&threads[i], NULL, flood, NULL) == 0);
	CHECK_ERR(files_ports(&files, ports, 4, &count), TIMEOUT);
	ticking = false;
	atomic_store(&flooding, false);
	CHECK(ticks > 20);
	CHECK(inside_now() - began < 5000);
	shutdown(ends[1], SHUT_RDWR);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	close_box();
}

static void try_gift(const char *words, int fd, enum err_kind want)
{
	struct files files;
	struct fileop_stat stat;
	auto_err err = NULL;
	int got = -1;

	open_box(&files);
	answer = words;
	gift = fd;
	task_start(inside_loop, "pid 1", give_gift, NULL);
	err = files_open(&files, "/f", &got, &stat);
	CHECK(err && err_kind(err) == want && got == -1);
	CHECK(box.worker_count == 0); // it is not kept
	close_box();
	if (fd >= 0)
		close(fd);
}

TASK_TEST(gifts, "an fd that is no regular file is refused, and a file worker that lies is dropped")
{
	int pipes[2];

	CHECK(pipe2(pipes, O_CLOEXEC) == 0);
	try_gift("opened", pipes[0], ERR_INVALID);
	close(pipes[1]);
	try_gift("opened", eventfd(0, EFD_CLOEXEC), ERR_INVALID);
	try_gift("opened", open("/proc/self/maps", O_RDONLY | O_CLOEXEC), ERR_INVALID);
	try_gift("opened", open("/dev/zero", O_RDONLY | O_CLOEXEC), ERR_INVALID);
	try_gift("opened", memfd_create("x", MFD_CLOEXEC), ERR_INVALID);
	try_gift("opened", socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), ERR_INVALID);
	try_gift("opened", -1, ERR_BAD_PEER);
	try_gift("done", open("/etc/hostname", O_RDONLY | O_CLOEXEC), ERR_BAD_PEER);
	try_gift("done", -1, ERR_BAD_PEER);
}

// The first file worker ends before its answer, having read the request or not; the second one
// answers.
static void give_two(void *arg)
{
	const bool *reads = arg;
	char room[512];
	size_t len = say(FILEOP_DONE, room);

	give_nth_worker(1);
	while (recv(ends[1], (char[4096]){0}, 4096, MSG_DONTWAIT | (*reads ? 0 : MSG_PEEK)) < 0)
		inside_sleep(1);
	fd_drop(&ends[1]);
	if (*reads)
		return;
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
	give_nth_worker(2);
	while (recv(ends[1], (char[4096]){0}, 4096, MSG_DONTWAIT) < 0)
		inside_sleep(1);
	CHECK(fd_send(ends[1], room, len, NULL, 0, 0) > 0);
}

TASK_TEST(unheard, "a request that a dying file worker did not read is sent to another one")
{
	struct files files;
	bool reads = false;

	open_box(&files);
	task_start(inside_loop, "pid 1", give_two, &reads);
	CHECK_OK(files_mkdir(&files, "/f", false, 0755));
	close_box();
}

TASK_TEST(half_done, "a change that a dying file worker did read is not repeated")
{
	struct files files;
	bool reads = true;

	open_box(&files);
	task_start(inside_loop, "pid 1", give_two, &reads);
	CHECK_ERR(files_mkdir(&files, "/f", false, 0755), INTERNAL);
	close_box();
}
