// Opens previews as configured: their base URL, certificate and listeners. A bad certificate at a
// reload is logged, and the old one stays.
#include "serve/previews.h"

#include "base/log.h"
#include "base/secret.h"
#include "serve/cert.h"

#define PEM_MAX (512 * 1024)

static fallible certify(const struct config *config, struct preview *preview)
{
	auto_buf cert = BUF_INIT(PEM_MAX), key = BUF_INIT(PEM_MAX);
	struct err *err;

	TRY(cert_take((int)config->fd_cert, &cert, &key));
	if (!cert.len)
		return OK;
	err = preview_certify(preview, buf_view(&cert), buf_view(&key));
	secret_wipe(key.at, key.len);
	return err;
}

static fallible find(const struct config *config, struct urls *out)
{
	return urls_make(str_of(config->preview_domain), str_of(config->preview_listen),
			 *config->preview_cert != 0, out);
}

static fallible look_again(const struct config *config, struct gateway *gateway,
			   struct preview *preview)
{
	struct urls urls;

	TRY(certify(config, preview));
	TRY(find(config, &urls));
	urls_done(&gateway->urls);
	gateway->urls = urls;
	return OK;
}

void previews_reload(const struct config *config, struct gateway *gateway, struct preview *preview)
{
	auto_err err = preview ? look_again(config, gateway, preview) : OK;

	if (err)
		log_event(LOG_ERROR, "daemon.cert_refused", "message", err_message(err), "trail",
			  err_trail(err), NULL);
}

static fallible listen_all(const struct config *config, struct preview *preview)
{
	struct str rest = str_of(config->fd_preview), word;

	while (rest.len && str_cut(&rest, ',', &word)) {
		uint64_t fd;

		if (!str_to_u64(word, 3, INT32_MAX, &fd))
			return err_new(INVALID, "bad_config", "--fd-preview is malformed");
		TRY(preview_listen(preview, (int)fd), "listen for previews");
	}
	return OK;
}

fallible previews_open(const struct config *config, struct gateway *gateway, struct preview **out)
{
	struct preview_options options = {
		.manager = gateway->manager,
		.urls = &gateway->urls,
		.key = gateway->link_key,
		.limits = HTTP_LIMITS_DEFAULT,
	};

	TRY(find(config, &gateway->urls));
	if (!*config->fd_preview)
		return OK;
	options.auth = authenticate_new(gateway->loop,
					&(struct authenticate_options){
						.bound = str_of(config->preview_listen),
						.names = str_of(config->hosts),
					});
	options.limits.conns_max = (uint32_t)config->conns_max;
	// Visitors have no account: one address may take half of the connections at most.
	options.limits.conns_per_peer = ((uint32_t)config->conns_max + 1) / 2;
	TRY(preview_open(&options, out));
	TRY(certify(config, *out));
	return listen_all(config, *out);
}
