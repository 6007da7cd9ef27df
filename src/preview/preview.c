// Two servers with the same handler, so that a request knows whether it came over TLS. The plain
// one has the listeners. A connection is assigned when it is accepted: to the TLS server if there
// is a certificate then.
#include "preview/preview.h"

#include <stdlib.h>

#include "base/mem.h"
#include "preview/pool.h"
#include "preview/target.h"
#include "preview/tls_front.h"

#define LISTENERS_MAX 8

struct preview {
	struct preview_options options;
	struct loop *loop;
	struct target plain, tls;
	struct http_server *plain_server, *tls_server;
	struct tls_front_keys *keys; // NULL: no certificate, no TLS
	int listener_count;
};

static bool preview_divert(void *arg, int fd, const struct sockaddr_storage *from)
{
	struct preview *preview = arg;

	if (preview->keys)
		tls_front_start(preview->loop, preview->keys, fd, from, preview->tls_server);
	return preview->keys;
}

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
	http_server_divert(preview->plain_server, preview_divert, preview);
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

fallible preview_listen(struct preview *preview, int fd)
{
	if (preview->listener_count == LISTENERS_MAX)
		return err_new(INVALID, "bad_config", "previews listen on %d addresses at most",
			       LISTENERS_MAX);
	TRY(http_server_listen(preview->plain_server, fd));
	preview->listener_count++;
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

bool preview_is_idle(const struct preview *preview)
{
	// With TLS, the last bytes of a reply are still in flight when the server has finished.
	return !preview || (is_idle(preview->plain_server) && is_idle(preview->tls_server) &&
			    !tls_front_shaking() &&
			    tls_front_unsaid() <= http_server_stats(preview->tls_server).open);
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
