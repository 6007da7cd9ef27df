// Opens previews as configured: their base URL, certificate and listeners. A bad certificate at a
// reload is logged, and the old one stays.
//
// Certificate and key are passed through a memfd: the certificate, a NUL, the key, a NUL. It is
// written, then truncated to its length. A reader in between sees an incomplete file and gets an
// error; the signal of that change is then still to come.
//
// syscalls: pread64
#include "serve/previews.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"

#define PEM_MAX (256 * 1024)

static fallible read_pem(const char *setting, const char *path, struct buf *out)
{
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char *room = buf_space(out, PEM_MAX);
	ssize_t len = fd < 0 || !room ? -1 : read(fd, room, PEM_MAX);

	if (len <= 0 || len == PEM_MAX || memchr(room, 0, (size_t)len))
		return err_new(INVALID, "bad_config", "%s: %s cannot be read", setting, path);
	buf_grew(out, (size_t)len);
	return OK;
}

fallible previews_refresh_cert(const struct config *config, int fd)
{
	auto_secret_buf text = BUF_SECRET(4 * PEM_MAX);

	if (*config->preview_cert) {
		TRY(read_pem("preview-cert", config->preview_cert, &text));
		buf_char(&text, '\0');
		TRY(read_pem("preview-key", config->preview_key, &text));
		buf_char(&text, '\0');
	}
	if (!buf_ok(&text) || pwrite(fd, text.at, text.len, 0) != (ssize_t)text.len ||
	    ftruncate(fd, (off_t)text.len))
		return err_sys(errno, "hand over the certificate of previews");
	return OK;
}

fallible previews_open_cert(const struct config *config, int *out_fd)
{
	auto_fd fd = memfd_create("cert", MFD_CLOEXEC);

	if (fd < 0)
		return err_sys(errno, "make a file for the certificate of previews");
	TRY(previews_refresh_cert(config, fd));
	*out_fd = take_fd(&fd);
	return OK;
}

// Appends both; both stay empty when there is none.
static fallible cert_take(int fd, struct buf *cert, struct buf *key)
{
	auto_free char *room = mem_new(2 * PEM_MAX);
	ssize_t len = pread(fd, room, 2 * PEM_MAX, 0);
	struct str rest = {room, len > 0 ? (size_t)len : 0}, first, second;

	if (len < 0)
		return err_sys(errno, "read the certificate of previews");
	if (!len)
		return OK;
	if (room[len - 1] || !str_cut(&rest, '\0', &first) || !str_cut(&rest, '\0', &second))
		return err_new(INVALID, "bad_config", "the certificate of previews is not whole");
	buf_str(cert, first);
	buf_str(key, second);
	secret_wipe(room, (size_t)len);
	return OK;
}

static fallible certify(const struct config *config, struct preview *preview)
{
	auto_buf cert = BUF_INIT(2 * PEM_MAX);
	auto_secret_buf key = BUF_SECRET(2 * PEM_MAX);

	TRY(cert_take((int)config->fd_cert, &cert, &key));
	if (!cert.len)
		return OK;
	return preview_certify(preview, buf_view(&cert), buf_view(&key));
}

static fallible find_urls(const struct config *config, struct urls *out)
{
	return urls_make(str_of(config->preview_domain), str_of(config->preview_listen),
			 *config->preview_cert != 0, out);
}

static fallible look_again(const struct config *config, struct gateway *gateway,
			   struct preview *preview)
{
	struct urls urls;

	TRY(certify(config, preview));
	TRY(find_urls(config, &urls));
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
		.api = gateway->auth,
		.urls = &gateway->urls,
		.key = gateway->link_key,
		.limits = HTTP_LIMITS_DEFAULT,
	};

	TRY(find_urls(config, &gateway->urls));
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
