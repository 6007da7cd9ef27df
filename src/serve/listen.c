// Opens the listeners of the supervisor, or takes them over after an upgrade. The configuration
// then holds the bound addresses and the numbers of the descriptors for the daemon.
#include "serve/listen.h"

#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/weak.h"
#include "loop/dial.h"

#define PREVIEWS "127.0.0.1:8485"
#define PREVIEWS_ANYWHERE "127.0.0.1:0"
#define USERS_GROUP "cove-users"
#define USERS_SOCKET "api.sock"
#define USERS_BACKLOG 512

static void set(char **text, struct buf *by)
{
	free(*text);
	*text = by->len ? buf_take(by) : mem_str("");
}

static void take_url(struct listeners *to, struct str host, uint16_t port)
{
	bool any = str_is(host, "0.0.0.0:") || str_is(host, "[::]:");

	snprintf(to->url, sizeof(to->url), "http://" STR_FMT "%u",
		 STR_ARG(any ? STR("127.0.0.1:") : host), port);
}

// Opens a list of addresses; records the bound addresses and the descriptors.
static fallible open_list(const char *setting, struct str rest, struct listeners *to,
			  struct buf *bound, struct buf *fds)
{
	struct str address;
	int count = 0;

	while (rest.len && str_cut(&rest, ',', &address)) {
		struct str host = str_trim(address);
		uint16_t port;
		int fd;

		if (count++ == REEXEC_LISTENERS)
			return err_new(INVALID, "bad_config", "--%s may name %d addresses", setting,
				       REEXEC_LISTENERS);
		TRY(dial_listen(host, &fd, &port));
		while (host.len && host.at[host.len - 1] != ':')
			host.len--;
		buf_fmt(bound, "%s" STR_FMT "%u", bound->len ? "," : "", STR_ARG(host), port);
		buf_fmt(fds, "%s%d", fds->len ? "," : "", fd);
		if (!to->count)
			take_url(to, host, port);
		to->fds[to->count++] = fd;
	}
	if (!count || !buf_ok(bound) || !buf_ok(fds))
		return err_new(INVALID, "bad_config", "--%s names no address", setting);
	return OK;
}

// Two coves on one host must not conflict about the default port: take another one.
static fallible open_previews(struct config *config, struct listeners *to)
{
	auto_buf bound = BUF_INIT(1024), fds = BUF_INIT(128);
	struct str asked = str_of(config->preview_listen);
	int before = to->count;
	auto_err err = NULL;

	if (str_is(asked, "none")) {
		set(&config->preview_listen, &bound);
		set(&config->fd_preview, &fds);
		return OK;
	}
	err = open_list("preview-listen", asked.len ? asked : STR(PREVIEWS), to, &bound, &fds);
	if (err && !asked.len && err_kind(err) == ERR_CONFLICT) {
		err_free(take_ptr(err));
		err = open_list("preview-listen", STR(PREVIEWS_ANYWHERE), to, &bound, &fds);
		log_event(LOG_WARN, "serve.preview_elsewhere", "message",
			  "port 8485 is taken: previews are on another one", "listen", bound.at,
			  NULL);
	}
	if (err)
		return take_ptr(err);
	to->previews = to->count - before;
	set(&config->preview_listen, &bound);
	set(&config->fd_preview, &fds);
	return OK;
}

static void set_users_fd(struct config *config, struct listeners *to, int fd)
{
	to->users = fd;
	config->fd_users = (uint64_t)fd;
	snprintf(to->socket, sizeof(to->socket), "%s/" USERS_SOCKET, config->run);
}

// 0660 root:GROUP. Before the chmod only root can connect: bind() creates the socket without write
// permission for others.
static fallible bind_users(const char *path, gid_t group, int *out)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	auto_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return err_sys(errno, "make a socket");
	memcpy(at.sun_path, path, strlen(path) + 1);
	if (unlink(path) && errno != ENOENT) // left by a killed cove; we hold the lock
		return err_sys(errno, "remove %s", path);
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) || lchown(path, 0, group) ||
	    chmod(path, weak(USERS_SOCKET) ? 0666 : 0660) || listen(fd, USERS_BACKLOG))
		return err_sys(errno, "listen on %s", path);
	*out = take_fd(&fd);
	return OK;
}

// The socket for the group users-group. A host without the default group has none.
static fallible open_users(struct config *config, struct listeners *to)
{
	const char *name = config->users_group;
	const struct group *group;
	auto_free char *path = mem_fmt("%s/" USERS_SOCKET, config->run);
	int fd = -1;

	if (!*name || !strcmp(name, "none"))
		return OK;
	group = getgrnam(name);
	if (!group && strcmp(name, USERS_GROUP) != 0)
		return err_hint(
			err_new(INVALID, "bad_config", "users-group: there is no group '%s'", name),
			"make it with 'groupadd --system %s'", name);
	if (!group)
		return OK;
	if (strlen(path) >= sizeof(((struct sockaddr_un *)0)->sun_path)) {
		log_event(LOG_WARN, "serve.no_users_socket", "message",
			  "the path of the run directory is too long for a socket", NULL);
		return OK;
	}
	TRY(bind_users(path, group->gr_gid, &fd));
	set_users_fd(config, to, fd);
	return OK;
}

fallible listen_open(struct config *config, struct listeners *out)
{
	auto_buf bound = BUF_INIT(1024), fds = BUF_INIT(128);

	TRY(open_list("listen", str_of(config->listen), out, &bound, &fds));
	set(&config->listen, &bound);
	set(&config->fd_listen, &fds);
	TRY(open_users(config, out));
	return open_previews(config, out);
}

static void listen_put_list(const int *fds, int count, char **out)
{
	auto_buf text = BUF_INIT(128);

	for (int i = 0; i < count; i++)
		buf_fmt(&text, "%s%d", i ? "," : "", fds[i]);
	set(out, &text);
}

fallible listen_again(struct config *config, const struct reexec *reexec, struct listeners *out)
{
	size_t bytes = sizeof(*out->fds);

	memcpy(out->fds, reexec->listeners, (size_t)reexec->listener_count * bytes);
	out->count = reexec->listener_count;
	memcpy(out->url, reexec->url, sizeof(out->url));
	free(config->listen);
	config->listen = mem_str(reexec->listen);
	listen_put_list(out->fds, out->count, &config->fd_listen);
	if (reexec->users)
		set_users_fd(config, out, reexec->users);
	else
		TRY(open_users(config, out));
	if (!reexec->preview_count) // the last image had no previews
		return open_previews(config, out);
	memcpy(out->fds + out->count, reexec->previews, (size_t)reexec->preview_count * bytes);
	listen_put_list(reexec->previews, reexec->preview_count, &config->fd_preview);
	out->count += reexec->preview_count;
	out->previews = reexec->preview_count;
	free(config->preview_listen);
	config->preview_listen = mem_str(reexec->preview);
	return OK;
}

void listen_renew(const struct config *config, const struct listeners *listeners,
		  struct reexec *out)
{
	int api = listeners->count - listeners->previews;
	size_t bytes = sizeof(*listeners->fds);

	memcpy(out->listeners, listeners->fds, (size_t)api * bytes);
	memcpy(out->previews, listeners->fds + api, (size_t)listeners->previews * bytes);
	out->listener_count = api;
	out->preview_count = listeners->previews;
	out->users = listeners->users;
	memcpy(out->url, listeners->url, sizeof(out->url));
	snprintf(out->listen, sizeof(out->listen), "%s", config->listen);
	snprintf(out->preview, sizeof(out->preview), "%s", config->preview_listen);
}
