#include "egress/resolve.h"

#include <dlfcn.h>
#include <netdb.h>
#include <resolv.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "unit/loop/inside.h"

// "slow…" names take as long as the gate is shut; the others are really looked up.
static atomic_int slow_now, slow_most, slow_all, searches;
static atomic_bool acceptor_open;

// In the place of the library's.
int look_up_fake(const char *name, const char *service, const struct addrinfo *hints,
		 struct addrinfo **out) __asm__("getaddrinfo");

int look_up_fake(const char *name, const char *service, const struct addrinfo *hints,
		 struct addrinfo **out)
{
	int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
	int now;

	searches += (_res.options & (RES_DEFNAMES | RES_DNSRCH)) != 0;
	if (strncmp(name, "slow-", 5) != 0) {
		*(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
		return real(name, service, hints, out);
	}
	now = ++slow_now;
	if (now > slow_most)
		slow_most = now;
	slow_all++;
	while (!acceptor_open)
		usleep(1000);
	slow_now--;
	return EAI_NONAME;
}

static struct resolve *resolve;
static int good, bad;

static struct err *begin(void)
{
	struct resolve_rules rules = {.exceptions = STR("127.0.0.9:99"),
				      .hosts = STR("listed.test=127.0.0.9")};

	good = bad = 0;
	return resolve_open(inside_loop, &rules, &resolve);
}

TASK_TEST(known, "numbers and listed names need no lookup")
{
	struct resolve_found found;

	CHECK_OK(begin());
	CHECK_OK(resolve_name(resolve, "a", "192.0.2.7", inside_now() + 1000, &found));
	CHECK(found.count == 1 && !found.at[0].is_v6 && found.at[0].at[3] == 7);
	CHECK_OK(resolve_name(resolve, "a", "listed.test", inside_now() + 1000, &found));
	CHECK(found.count == 1 && found.at[0].at[3] == 9);
	resolve_close(resolve);
}

static void ask(void *arg)
{
	struct resolve_found found;
	auto_err err = resolve_name(resolve, "a", arg, inside_now() + 10000, &found);

	good += !err && found.count > 0;
	bad += err != NULL;
}

TASK_TEST(together, "a hundred that ask for one name at once are answered by one lookup")
{
	CHECK_OK(begin());
	for (int i = 0; i < 100; i++)
		task_start(inside_loop, "ask", ask, (void *)(intptr_t) "localhost");
	for (int i = 0; i < 1000 && good + bad < 100; i++)
		inside_sleep(10);
	CHECK(good == 100);
	resolve_close(resolve);
}

TASK_TEST(own, "N-12: a name that leads to the host itself is not connected to")
{
	struct stream stream = {.fd = -1};
	struct address address;

	CHECK_OK(begin());
	CHECK_ERR(resolve_connect(resolve, "a", "localhost", 80, inside_now() + 5000, &stream,
				  &address),
		  FORBIDDEN);
	CHECK_ERR(resolve_connect(resolve, "a", "listed.test", 98, inside_now() + 5000, &stream,
				  &address),
		  FORBIDDEN); // another port than the exception's
	CHECK_ERR(resolve_connect(resolve, "a", "listed.test", 99, inside_now() + 5000, &stream,
				  &address),
		  BAD_PEER); // allowed, but nobody is there
	CHECK_ERR(resolve_connect(resolve, "a", "::ffff:127.0.0.1", 80, inside_now() + 5000,
				  &stream, &address),
		  FORBIDDEN);
	CHECK_ERR(resolve_connect(resolve, "a", "169.254.169.254", 80, inside_now() + 5000, &stream,
				  &address),
		  FORBIDDEN);
	resolve_close(resolve);
}

TASK_TEST(gone, "a lookup ends at its deadline, and closing waits for no lookup")
{
	int64_t since = clock_ms();
	struct resolve_found found;
	auto_err err = NULL;

	CHECK_OK(begin());
	err = resolve_name(resolve, "a", "slow.invalid", inside_now(), &found);
	CHECK(err != NULL); // TIMEOUT, or there is nobody to ask
	resolve_close(resolve);
	CHECK(clock_ms() - since < 2000);
}

static void ask_briefly(void *arg)
{
	struct resolve_found found;
	auto_free char *name = arg;
	auto_err err = resolve_name(resolve, "a", name, inside_now() + 300, &found);

	good += !err;
	bad += err != NULL;
}

static void ask_as_b(void *arg)
{
	struct resolve_found found;

	err_free(resolve_name(resolve, "b", arg, inside_now() + 200, &found));
}

TASK_TEST(turns, "the slow names of one box hold up itself alone, and are dropped with who waits")
{
	struct resolve_found found;
	int64_t since;

	CHECK_OK(begin());
	slow_all = slow_most = 0;
	acceptor_open = false;
	for (int i = 0; i < 100; i++)
		task_start(inside_loop, "ask", ask_briefly, mem_fmt("slow-%d", i));
	inside_sleep(50);
	CHECK(slow_now == 4 && slow_all == 4);
	since = clock_ms();
	CHECK_OK(resolve_name(resolve, "b", "localhost", inside_now() + 5000, &found));
	CHECK(clock_ms() - since < 200);
	// One that waits in the queue of another is in one's own, too.
	task_start(inside_loop, "ask", ask_as_b, (void *)(intptr_t) "slow-99");
	inside_sleep(50);
	CHECK(slow_all == 5);
	for (int i = 0; i < 500 && bad < 100; i++)
		inside_sleep(10);
	CHECK(bad == 100);
	acceptor_open = true;
	inside_sleep(100);
	CHECK(slow_all == 5 && slow_now == 0 && slow_most == 5);
	resolve_close(resolve);
}

TEST(absolute, "the name that was judged is looked up, without the domains that the host searches")
{
	struct resolve_found found;

	searches = 0;
	resolve_look_up("localhost", &found);
	CHECK(found.count > 0); // of /etc/hosts, as before
	CHECK(searches == 0);
}
