// Name resolution with fair sharing. getaddrinfo() blocks as long as a foreign DNS server likes, so
// it runs in a few threads of its own, with a cache. Tasks wait for a lookup, and may stop waiting;
// tasks that ask for the same name share it.
//
// Each box has a queue of waiting tasks; the boxes take turns, with at most ASKER_MAX lookups at
// once. So slow names of one box delay only that box, and a name that no task waits for is not
// looked up. The loop decides what is next; the lock guards the lists shared with the threads.
//
// syscalls: socket bind connect close sendto recvfrom sendmsg recvmsg sendmmsg poll ppoll ioctl
// syscalls: getsockname getpeername setsockopt fcntl getuid getpid uname statx eventfd2 read write
// syscalls: clone clone3 futex mmap mprotect munmap madvise rseq set_robust_list rt_sigprocmask
#include "egress/resolve.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <resolv.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/mem.h"
#include "base/weak.h"
#include "loop/dial.h"
#include "os/fd.h"
#include "os/route.h"
#include "types/hostname.h"

#define THREADS 16
#define THREAD_STACK (512 * 1024)
#define ASKER_MAX 4    // lookups at once for one box
#define WAITS_MAX 2048 // waiting tasks of one box
#define KEPT_MAX 4096
#define ANSWER_MAX 16384 // bytes of records
#define GOOD_MS 30000
#define BAD_MS 3000

struct lookup {
	struct link link; // in the queue or in the list of finished lookups
	char name[HOSTNAME_MAX + 1];
	uint16_t type; // of the records; 0: addresses
	struct resolve_found found;
	char *answer; // the DNS message, for a type
	size_t answer_len;
	struct asker *asker; // whose lookup is running; NULL: not running
	int64_t until;	     // when its answer expires
	uint64_t answers;
	uint32_t waiters;
	struct condition condition;
};

struct asker {
	struct link link; // among all
	char *box;
	struct link waits;
	uint32_t waiting, under_way;
};

struct wait {
	struct link link;
	struct lookup *lookup;
	uint64_t before; // its number of answers when we began to wait
};

struct resolve {
	struct loop *loop;
	struct resolve_rules rules;
	struct map *known;   // name -> lookup
	struct link askers;  // the first has the next turn
	struct map *by_name; // of a box -> asker
	uint32_t busy;	     // running lookups
	struct watch watch;  // of the eventfd
	int users;	     // threads and the owner: the last one frees it
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct link waiting, done;
	bool closing;
};

// ---------------------------------------------------------------------------------- the guard

// True if the kernel would send to the address without a router: this host, or a neighbour on its
// links. An error of the kernel counts as true.
static bool is_neighbour(const struct address *address)
{
	enum route_kind kind;

	return route_find(address->is_v6, address->at, &kind) || kind == ROUTE_OWN;
}

// May the daemon connect there for a tenant?
static bool resolve_may_reach(const struct resolve_rules *rules, const struct address *address,
			      uint16_t port)
{
	struct address inner;

	if (weak(OUTBOUND) || address_is_listed(rules->exceptions, address, port))
		return true;
	if (!address_is_global(address))
		return false;
	return weak(NEIGHBOURS) || (!is_neighbour(address) &&
				    !(address_carries(address, &inner) && is_neighbour(&inner)));
}

bool resolve_is_known(const struct resolve_rules *rules, struct str name, struct resolve_found *out)
{
	struct address known;

	if (!address_read(name, &known) && !address_of_name(rules->hosts, name, &known))
		return false;
	*out = (struct resolve_found){.at = {known}, .count = 1};
	return true;
}

fallible resolve_no_name(const char *name)
{
	return err_new(BAD_PEER, "unknown_name", "there is no host named '%s'", name);
}

fallible resolve_dial(const struct resolve_rules *rules, struct loop *loop,
		      const struct resolve_found *found, const char *name, uint16_t port,
		      int64_t deadline, struct stream *out, struct address *out_address)
{
	char hosts[RESOLVE_MAX][DIAL_HOST_TEXT];
	size_t which[RESOLVE_MAX], count = 0, winner = 0;
	struct err *err;

	for (size_t i = 0; i < found->count; i++) {
		if (!resolve_may_reach(rules, &found->at[i], port))
			continue;
		address_write(&found->at[i], hosts[count]);
		which[count++] = i;
	}
	if (!count)
		return err_hint(err_new(FORBIDDEN, "not_global",
					"'%s' leads to this host, to its neighbours or into "
					"private networks",
					name),
				"the operator may list the address in egress-exceptions");
	err = dial_first(loop, hosts, count, port, deadline, out, &winner);
	if (err && err_kind(err) == ERR_UNAVAILABLE)
		return err_recast(err, ERR_BAD_PEER, "no_server",
				  "no server answers at '%s' port %u", name, port);
	if (!err)
		*out_address = found->at[which[winner]];
	return err;
}

// ---------------------------------------------------------------------------------- in a thread

// The addresses of one family, in the order of getaddrinfo().
struct resolve_family {
	struct address at[RESOLVE_MAX];
	size_t count;
};

static void family_take(struct resolve_family *family, const struct sockaddr *from)
{
	struct address *to = &family->at[family->count];

	if (family->count == RESOLVE_MAX)
		return;
	*to = (struct address){.is_v6 = from->sa_family == AF_INET6};
	if (to->is_v6)
		memcpy(to->at, &((const struct sockaddr_in6 *)(const void *)from)->sin6_addr, 16);
	else
		memcpy(to->at, &((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
	family->count++;
}

// RFC 8305, 4: the families alternate, starting with the one that getaddrinfo() prefers.
static void found_interleave(const struct resolve_family families[2], bool v6_first,
			     struct resolve_found *out)
{
	for (size_t i = 0; out->count < RESOLVE_MAX && i < RESOLVE_MAX; i++)
		for (int turn = 0; turn < 2 && out->count < RESOLVE_MAX; turn++) {
			const struct resolve_family *family = &families[v6_first ? !turn : turn];

			if (i < family->count)
				out->at[out->count++] = family->at[i];
		}
}

void resolve_look_up(const char *name, struct resolve_found *out)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
	struct resolve_family families[2] = {0}; // IPv4, IPv6

	out->count = 0;
	// Look up the judged name only: no search domain is appended. A trailing dot would do that,
	// too, but would miss /etc/hosts. res_init() reads resolv.conf again for this thread.
	res_init();
	_res.options &= ~(unsigned long)(RES_DEFNAMES | RES_DNSRCH);
	if (getaddrinfo(name, NULL, &hints, &list) != 0)
		return;
	for (struct addrinfo *at = list; at; at = at->ai_next)
		if (at->ai_family == AF_INET || at->ai_family == AF_INET6)
			family_take(&families[at->ai_family == AF_INET6], at->ai_addr);
	found_interleave(families, list && list->ai_family == AF_INET6, out);
	freeaddrinfo(list);
}

// No search domain is appended, and no file of the host is used.
static void lookup_records(struct lookup *lookup)
{
	auto_free uint8_t *room = mem_new(ANSWER_MAX);
	uint8_t question[512];
	int len;

	res_init();
	len = res_nmkquery(&_res, 0, lookup->name, 1, lookup->type, NULL, 0, NULL, question,
			   sizeof(question));
	len = len < 0 ? -1 : res_nsend(&_res, question, len, room, ANSWER_MAX);
	free(lookup->answer);
	lookup->answer_len = len < 0 ? 0 : len > ANSWER_MAX ? ANSWER_MAX : (size_t)len;
	lookup->answer = lookup->answer_len ? mem_dup(room, lookup->answer_len) : NULL;
}

static void lookup_free(struct lookup *lookup)
{
	free(lookup->answer);
	free(lookup);
}

static void asker_free(struct resolve *resolve, struct asker *asker)
{
	link_drop(&asker->link);
	map_take(resolve->by_name, str_of(asker->box));
	free(asker->box);
	free(asker);
}

// Called with the lock held; the lock is gone afterwards.
static void resolve_leave(struct resolve *resolve)
{
	bool last = --resolve->users == 0;
	size_t at = 0;
	struct str key;
	void *value;

	pthread_mutex_unlock(&resolve->lock);
	if (!last)
		return;
	if (resolve->watch.fd >= 0)
		close(resolve->watch.fd);
	while (map_next(resolve->known, &at, &key, &value))
		lookup_free(value);
	map_free(resolve->known);
	while (!link_empty(&resolve->askers))
		asker_free(resolve, link_of(resolve->askers.next, struct asker, link));
	map_free(resolve->by_name);
	free(resolve);
}

static void *resolve_work(void *arg)
{
	struct resolve *resolve = arg;

	pthread_mutex_lock(&resolve->lock);
	for (;;) {
		struct lookup *lookup;

		while (link_empty(&resolve->waiting) && !resolve->closing)
			pthread_cond_wait(&resolve->more, &resolve->lock);
		if (resolve->closing)
			break;
		lookup = link_of(resolve->waiting.next, struct lookup, link);
		link_drop(&lookup->link);
		pthread_mutex_unlock(&resolve->lock);

		if (lookup->type)
			lookup_records(lookup);
		else
			resolve_look_up(lookup->name, &lookup->found);

		pthread_mutex_lock(&resolve->lock);
		link_add(&resolve->done, &lookup->link);
		fd_wake(resolve->watch.fd);
	}
	resolve_leave(resolve);
	return NULL;
}

// ---------------------------------------------------------------------------------- on the loop

static void drop_idle(struct resolve *resolve, struct asker *asker)
{
	if (!asker->waiting && !asker->under_way)
		asker_free(resolve, asker);
}

static void resolve_start(struct resolve *resolve, struct asker *asker, struct lookup *lookup)
{
	lookup->asker = asker;
	asker->under_way++;
	resolve->busy++;
	pthread_mutex_lock(&resolve->lock);
	link_add(&resolve->waiting, &lookup->link);
	pthread_cond_signal(&resolve->more);
	pthread_mutex_unlock(&resolve->lock);
}

// The next name of this box that is not being looked up.
static struct lookup *next_of(const struct asker *asker)
{
	if (asker->under_way >= ASKER_MAX)
		return NULL;
	list_each (at, &asker->waits) {
		struct wait *wait = link_of(at, struct wait, link);

		if (wait->lookup->answers == wait->before && !wait->lookup->asker)
			return wait->lookup;
	}
	return NULL;
}

// Gives work to idle threads. A box that had its turn moves to the end.
static void resolve_go_on(struct resolve *resolve)
{
	bool more = true;

	while (more && resolve->busy < THREADS) {
		more = false;
		list_each (at, &resolve->askers) {
			struct asker *asker = link_of(at, struct asker, link);
			struct lookup *lookup = next_of(asker);

			if (!lookup)
				continue;
			link_drop(&asker->link);
			link_add(&resolve->askers, &asker->link);
			resolve_start(resolve, asker, lookup);
			more = true;
			break;
		}
	}
}

static void resolve_finish(struct resolve *resolve, struct lookup *lookup)
{
	struct asker *asker = take_ptr(lookup->asker);

	lookup->until = loop_now(resolve->loop) + (lookup->found.count ? GOOD_MS : BAD_MS);
	lookup->answers++;
	resolve->busy--;
	asker->under_way--;
	drop_idle(resolve, asker);
	condition_signal(&lookup->condition);
}

static void resolve_on_done(struct watch *watch, uint32_t events)
{
	struct resolve *resolve = link_of(watch, struct resolve, watch);
	struct link done;
	uint64_t count;

	(void)events;
	while (read(watch->fd, &count, sizeof(count)) < 0 && errno == EINTR)
		;
	link_init(&done);
	pthread_mutex_lock(&resolve->lock);
	while (!link_empty(&resolve->done)) {
		struct link *item = resolve->done.next;

		link_drop(item);
		link_add(&done, item);
	}
	pthread_mutex_unlock(&resolve->lock);
	while (!link_empty(&done)) {
		struct lookup *lookup = link_of(done.next, struct lookup, link);

		link_drop(&lookup->link);
		resolve_finish(resolve, lookup);
	}
	resolve_go_on(resolve);
}

// Makes room for one more answer: drops expired ones, else any that no task waits for.
static void resolve_make_room(struct resolve *resolve)
{
	int64_t now = loop_now(resolve->loop);
	struct str key, oldest = {0};
	int64_t least = INT64_MAX;
	size_t at = 0;
	void *value;

	if (map_count(resolve->known) < KEPT_MAX)
		return;
	while (map_next(resolve->known, &at, &key, &value)) {
		const struct lookup *lookup = value;

		if (!lookup->asker && !lookup->waiters && lookup->until < least) {
			least = lookup->until;
			oldest = key;
			if (least <= now)
				break;
		}
	}
	if (oldest.at)
		lookup_free(map_take(resolve->known, oldest));
}

static struct lookup *lookup_of(struct resolve *resolve, uint16_t type, const char *name)
{
	auto_free char *key = mem_fmt("%u %s", type, name);
	struct lookup *lookup = map_get(resolve->known, str_of(key));

	if (lookup)
		return lookup;
	resolve_make_room(resolve);
	lookup = mem_new_of(struct lookup);
	lookup->type = type;
	memcpy(lookup->name, name, strlen(name) + 1);
	condition_init(&lookup->condition);
	link_init(&lookup->link);
	map_put(resolve->known, str_of(key), lookup);
	return lookup;
}

static struct asker *asker_of(struct resolve *resolve, const char *box)
{
	struct asker *asker = map_get(resolve->by_name, str_of(box));

	if (asker)
		return asker;
	asker = mem_new_of(struct asker);
	asker->box = mem_str(box);
	link_init(&asker->waits);
	link_add(&resolve->askers, &asker->link);
	map_put(resolve->by_name, str_of(box), asker);
	return asker;
}

static fallible resolve_await(struct resolve *resolve, struct asker *asker, struct lookup *lookup,
			      int64_t deadline)
{
	struct wait wait = {.lookup = lookup, .before = lookup->answers};
	struct err *err = OK;

	link_add(&asker->waits, &wait.link);
	asker->waiting++;
	lookup->waiters++;
	resolve_go_on(resolve);
	while (!err && lookup->answers == wait.before)
		err = condition_wait(&lookup->condition, deadline);
	link_drop(&wait.link);
	asker->waiting--;
	lookup->waiters--;
	drop_idle(resolve, asker);
	return err;
}

// Waits for a lookup with a valid answer.
static fallible lookup_await(struct resolve *resolve, const char *box, uint16_t type,
			     const char *name, int64_t deadline, struct lookup **out)
{
	struct lookup *lookup = lookup_of(resolve, type, name);
	struct asker *asker;

	if (lookup->asker || lookup->until <= loop_now(resolve->loop)) {
		asker = asker_of(resolve, box);
		if (asker->waiting >= WAITS_MAX)
			return err_new(EXHAUSTED, "lookups_full",
				       "too many names are being looked up");
		TRY(resolve_await(resolve, asker, lookup, deadline));
	}
	*out = lookup;
	return OK;
}

fallible resolve_records(struct resolve *resolve, const char *box, uint16_t type, const char *name,
			 int64_t deadline, struct buf *out)
{
	struct lookup *lookup = NULL;

	if (!type || !name[0] || strlen(name) > HOSTNAME_MAX)
		return err_new(INVALID, "no_name", "not a host name");
	TRY(lookup_await(resolve, box, type, name, deadline, &lookup));
	if (!lookup || !lookup->answer_len)
		return err_new(BAD_PEER, "no_answer", "no DNS server answers for '%s'", name);
	buf_add(out, lookup->answer, lookup->answer_len);
	return OK;
}

fallible resolve_name(struct resolve *resolve, const char *box, const char *name, int64_t deadline,
		      struct resolve_found *out)
{
	struct lookup *lookup = NULL;

	if (!name[0] || strlen(name) > HOSTNAME_MAX)
		return err_new(INVALID, "no_name", "not a host name");
	if (resolve_is_known(&resolve->rules, str_of(name), out))
		return OK;
	TRY(lookup_await(resolve, box, 0, name, deadline, &lookup));
	if (!lookup || !lookup->found.count)
		return resolve_no_name(name);
	*out = lookup->found;
	return OK;
}

fallible resolve_connect(struct resolve *resolve, const char *box, const char *name, uint16_t port,
			 int64_t deadline, struct stream *out, struct address *out_address)
{
	struct resolve_found found = {0};

	TRY(resolve_name(resolve, box, name, deadline, &found));
	return resolve_dial(&resolve->rules, resolve->loop, &found, name, port, deadline, out,
			    out_address);
}

// ------------------------------------------------------------------------------ open and close

static fallible start_threads(struct resolve *resolve)
{
	pthread_attr_t attr;
	sigset_t all, before;
	int failed = 0, started = 0;
	pthread_t thread;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, THREAD_STACK);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_mutex_lock(&resolve->lock);
	while (!failed && started < THREADS) {
		failed = pthread_create(&thread, &attr, resolve_work, resolve);
		started += !failed;
	}
	resolve->users += started;
	pthread_mutex_unlock(&resolve->lock);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return started ? OK : err_sys(failed, "start a thread that looks up names");
}

fallible resolve_open(struct loop *loop, const struct resolve_rules *rules, struct resolve **out)
{
	struct resolve *resolve = mem_new_of(struct resolve);
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct err *err = OK;

	*resolve = (struct resolve){.loop = loop,
				    .rules = *rules,
				    .known = map_new(),
				    .by_name = map_new(),
				    .users = 1,
				    .watch = {.fd = fd, .ready = resolve_on_done},
				    .lock = PTHREAD_MUTEX_INITIALIZER,
				    .more = PTHREAD_COND_INITIALIZER};
	link_init(&resolve->askers);
	link_init(&resolve->waiting);
	link_init(&resolve->done);
	if (fd < 0)
		err = err_sys(errno, "make an eventfd");
	if (!err)
		err = loop_watch(loop, &resolve->watch, EPOLLIN);
	if (!err)
		err = start_threads(resolve);
	if (err) {
		resolve_close(resolve);
		return err;
	}
	*out = resolve;
	return OK;
}

void resolve_close(struct resolve *resolve)
{
	if (!resolve)
		return;
	loop_unwatch(resolve->loop, &resolve->watch);
	pthread_mutex_lock(&resolve->lock);
	resolve->closing = true;
	pthread_cond_broadcast(&resolve->more);
	resolve_leave(resolve);
}
