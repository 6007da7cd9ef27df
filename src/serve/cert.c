// Passes the certificate of previews through a memfd: the certificate, a NUL, the key, a NUL. It is
// written, then truncated to its length. A reader in between sees an incomplete file and gets an
// error; the signal of that change is then still to come.
//
// syscalls: pread64
#include "serve/cert.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/auto.h"
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

fallible cert_refresh(const struct config *config, int fd)
{
	auto_buf text = BUF_INIT(4 * PEM_MAX);

	if (*config->preview_cert) {
		TRY(read_pem("preview-cert", config->preview_cert, &text));
		buf_char(&text, '\0');
		TRY(read_pem("preview-key", config->preview_key, &text));
		buf_char(&text, '\0');
	}
	if (!buf_ok(&text) || pwrite(fd, text.at, text.len, 0) != (ssize_t)text.len ||
	    ftruncate(fd, (off_t)text.len))
		return err_sys(errno, "hand over the certificate of previews");
	secret_wipe(text.at, text.len);
	return OK;
}

fallible cert_open(const struct config *config, int *out_fd)
{
	auto_fd fd = memfd_create("cert", MFD_CLOEXEC);

	if (fd < 0)
		return err_sys(errno, "make a file for the certificate of previews");
	TRY(cert_refresh(config, fd));
	*out_fd = take_fd(&fd);
	return OK;
}

fallible cert_take(int fd, struct buf *cert, struct buf *key)
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
