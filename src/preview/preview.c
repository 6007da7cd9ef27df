// Two servers with the same handler, so that a request knows whether it came over TLS. A connection
// is assigned when it is accepted: to the TLS server if there is a certificate then.
//
// syscalls: accept4 close
#include "preview/preview.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "preview/pool.h"
#include "preview/target.h"
#include "preview/tls_front.h"

#define LISTENERS_MAX 8
#define ACCEPTS_A_TURN 32
#define PAUSE_MS 100

struct listener {
	struct watch watch;
	struct preview *preview;
};

struct preview {
	struct preview_options options;
	struct loop *loop;
	struct target plain, tls;
	struct http_server *plain_server, *tls_server;
	struct tls_front_keys *keys; // NULL: no certificate, no TLS
	struct listener ears[LISTENERS_MAX];
	int subscribers_count;
	struct timer resume;
};

fallible preview_open(const struct preview_options *options, struct preview **out)
{
	struct preview *preview = mem_new_of(struct preview);
	struct err *err;

	preview->options = *options;
	preview->loop = options->manager->loop;
	preview->options.pool = pool_new(preview->loop);
	preview->plain = (struct target){&preview->options, false};
	preview->tls = (struct target){&preview->options, true};
	err = http_server_open(preview->loop, &options->limits, target_serve, target_refuse,
			       &preview->plain, &preview->plain_server);
	if (!err)
		err = http_server_open(preview->loop, &options->limits, target_serve, target_refuse,
				       &preview->tls, &preview->tls_server);
	if (err) {
		preview_free(preview);
		return err;
	}
	*out = preview;
	return OK;
}

fallible preview_certify(struct preview *preview, struct str cert, struct str key)
{
	struct tls_front_keys *keys = NULL;

	TRY(tls_front_keys_read(cert, key, &keys));
	tls_front_keys_free(preview->keys);
	preview->keys = keys;
	return OK;
}

static void preview_admit(struct preview *preview, int fd, const struct sockaddr_storage *from)
{
	if (preview->keys)
		tls_front_start(preview->loop, preview->keys, fd, from, preview->tls_server);
	else
		http_server_take(preview->plain_server, fd, from);
}

static void on_resume(struct timer *timer)
{
	struct preview *preview = link_of(timer, struct preview, resume);

	for (int i = 0; i < preview->subscribers_count; i++)
		err_free(loop_watch(preview->loop, &preview->ears[i].watch, EPOLLIN));
}

// Probably out of file descriptors: accept(2) would fail again at once.
static void preview_pause(struct preview *preview)
{
	for (int i = 0; i < preview->subscribers_count; i++)
		loop_unwatch(preview->loop, &preview->ears[i].watch);
	loop_set_timer(preview->loop, &preview->resume, loop_now(preview->loop) + PAUSE_MS);
}

static void on_listener(struct watch *watch, uint32_t events)
{
	struct preview *preview = link_of(watch, struct listener, watch)->preview;

	(void)events;
	for (int i = 0; i < ACCEPTS_A_TURN; i++) {
		struct sockaddr_storage from = {0};
		socklen_t len = sizeof(from);
		int fd = accept4(watch->fd, (struct sockaddr *)&from, &len,
				 SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			preview_admit(preview, fd, &from);
		} else if (errno == EAGAIN) {
			return;
		} else if (errno != ECONNABORTED && errno != EINTR && errno != EPROTO) {
			preview_pause(preview);
			return;
		}
	}
}

fallible preview_listen(struct preview *preview, int fd)
{
	struct listener *listener = &preview->ears[preview->subscribers_count];

	if (preview->subscribers_count == LISTENERS_MAX)
		return err_new(INVALID, "bad_config", "previews listen on %d addresses at most",
			       LISTENERS_MAX);
	preview->resume.due = on_resume;
	*listener = (struct listener){.watch = {.fd = fd, .ready = on_listener},
				      .preview = preview};
	TRY(loop_watch(preview->loop, &listener->watch, EPOLLIN), "accept visitors");
	preview->subscribers_count++;
	return OK;
}

void preview_bound(struct preview *preview, uint32_t conns_max, struct str names)
{
	if (!preview)
		return;
	// Visitors have no account: no address may take all connections.
	http_server_bound(preview->plain_server, conns_max, (conns_max + 1) / 2);
	http_server_bound(preview->tls_server, conns_max, (conns_max + 1) / 2);
	authenticate_set_names(preview->options.auth, names);
}

void preview_drain(struct preview *preview)
{
	if (!preview)
		return;
	loop_drop_timer(preview->loop, &preview->resume);
	for (int i = 0; i < preview->subscribers_count; i++) {
		loop_unwatch(preview->loop, &preview->ears[i].watch);
		close(preview->ears[i].watch.fd);
	}
	preview->subscribers_count = 0;
	pool_drain(preview->options.pool);
	if (preview->plain_server)
		http_server_drain(preview->plain_server);
	if (preview->tls_server)
		http_server_drain(preview->tls_server);
}

static bool is_idle(const struct http_server *server)
{
	return http_server_idle(server) || http_server_feeds_only(server);
}

// With TLS, the last bytes of a reply are still in flight when the server has finished.
static bool is_said(const struct preview *preview)
{
	return !tls_front_shaking() &&
	       tls_front_unsaid() <= http_server_stats(preview->tls_server).open;
}

bool preview_is_idle(const struct preview *preview)
{
	return !preview ||
	       (is_idle(preview->plain_server) && is_idle(preview->tls_server) && is_said(preview));
}

void preview_free(struct preview *preview)
{
	if (!preview)
		return;
	preview_drain(preview);
	http_server_free(preview->plain_server);
	http_server_free(preview->tls_server);
	tls_front_keys_free(preview->keys);
	pool_free(preview->options.pool);
	free(preview);
}
