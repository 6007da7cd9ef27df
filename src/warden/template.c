// Templates on disk. DATA/layers holds, for each, a directory NAME with `root` (its files, ids
// unshifted) and `meta` (lines of key=value). Other names, which no template can have:
//	.host-STAMP  the skeleton of the host, made anew when its packages change
//	.new-N       being filled by a child; renamed when complete
//	.gone-N      removed, but boxes that started from it may still read it
//	.trash       being deleted
// A lower directory must not change under a mounted overlay, so a removed template is kept until
// every box that is older than its removal has ended.
//
// syscalls: openat close getdents64 newfstatat fcntl kill wait4
#include "warden/template.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"
#include "os/path.h"
#include "warden/template_cache.h"

#define META_MAX 4096

static fallible warden_template_destroy(struct templates *all, const char *name, void *arg)
{
	(void)arg;
	if (str_starts(str_of(name), ORDER_UNFINISHED))
		return trash_put(all->trash, all->layers.dir, name);
	if (str_starts(str_of(name), ".gone-"))
		template_cache_is_gone(all, name); // boxes of an earlier warden may still use it
	return OK;
}

static fallible warden_template_start(struct templates *all)
{
	TRY(box_state_boot(all->boot));
	TRY(private_dir_open(all->data, "layers", &all->layers));
	TRY(trash_open(all->layers.dir, ".trash", &all->trash));
	return template_cache_walk(all, warden_template_destroy, NULL);
}

fallible templates_open(int data, struct templates **out)
{
	struct templates *all = mem_new_of(struct templates);
	struct err *err;

	all->layers = PRIVATE_DIR_NONE;
	all->host_root = all->host_usr = -1;
	link_init(&all->jobs);
	link_init(&all->gone);
	all->number = (uint64_t)clock_wall_ms() << 8;
	all->data = openat(data, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	all->host_dir = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	err = all->data < 0 || all->host_dir < 0 ? err_sys(errno, "open the state directory")
						 : warden_template_start(all);
	if (err) {
		templates_close(all);
		return err_while(err, "open the templates");
	}
	*out = all;
	return OK;
}

bool templates_at_work(const struct templates *all)
{
	return all->job_count > 0;
}

void templates_close(struct templates *all)
{
	const int fds[] = {all ? all->data : -1, all ? all->host_dir : -1,
			   all ? all->host_root : -1, all ? all->host_usr : -1};

	if (!all)
		return;
	list_each (at, &all->jobs) {
		struct template_cache_job *job = link_of(at, struct template_cache_job, link);

		kill(job->pid, SIGKILL);
		waitpid(job->pid, NULL, 0);
		template_cache_job_drop(all, job);
	}
	list_each (at, &all->gone) {
		link_drop(at);
		free(link_of(at, struct template_cache_gone, link));
	}
	trash_close(all->trash);
	private_dir_close(&all->layers);
	for (size_t i = 0; i < sizeof(fds) / sizeof(*fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	free(all);
}

void template_cancel(struct templates *all, uint32_t id)
{
	list_each (at, &all->jobs) {
		struct template_cache_job *job = link_of(at, struct template_cache_job, link);

		if (id && job->order != id)
			continue;
		kill(job->pid, SIGKILL);
		if (!id)
			job->order = 0;
	}
}

void templates_idle(struct templates *all, int64_t oldest_us)
{
	list_each (at, &all->gone) {
		struct template_cache_gone *gone = link_of(at, struct template_cache_gone, link);

		if (gone->since_us >= oldest_us)
			continue;
		err_free(trash_put(all->trash, all->layers.dir, gone->name));
		link_drop(at);
		free(gone);
	}
}

bool templates_has_gone(const struct templates *all)
{
	return !link_empty(&all->gone);
}

static fallible host_find(struct templates *all, int *out_root, int *out_usr)
{
	auto_fd root = -1;
	auto_fd usr = -1;

	TRY(template_cache_host(all));
	root = fcntl(all->host_root, F_DUPFD_CLOEXEC, 3);
	usr = fcntl(all->host_usr, F_DUPFD_CLOEXEC, 3);
	if (root < 0 || usr < 0)
		return err_sys(errno, "hand out the host's template");
	*out_root = take_fd(&root);
	*out_usr = take_fd(&usr);
	return OK;
}

static fallible warden_template_add_name(struct templates *all, const char *name, void *arg)
{
	struct buf *names = arg;

	(void)all;
	if (id_is_template(str_of(name)) && names->len < 180)
		buf_fmt(names, ", %s", name);
	return OK;
}

static fallible template_none(struct templates *all, const char *name)
{
	auto_buf names = BUF_INIT(256);

	err_free(template_cache_walk(all, warden_template_add_name, &names));
	return err_hint(err_new(NOT_FOUND, "no_template", "there is no template '%.64s'", name),
			"there is: host%s", names.len ? names.at : "");
}

fallible template_find(struct templates *all, const char *name, int *out_root, int *out_usr)
{
	int root;

	if (!strcmp(name, "host"))
		return host_find(all, out_root, out_usr);
	if (!id_is_template(str_of(name)))
		return template_none(all, name);
	root = template_cache_root(all, name);
	if (root < 0)
		return errno == ENOENT ? template_none(all, name)
				       : err_sys(errno, "open '%s'", name);
	*out_root = root;
	*out_usr = -1;
	return OK;
}

static bool warden_template_is_unfinished(const struct templates *all, const char *name)
{
	if (!str_starts(str_of(name), ORDER_UNFINISHED))
		return false;
	list_each (at, &all->jobs)
		if (!strcmp(link_of(at, struct template_cache_job, link)->temp, name))
			return false;
	return true;
}

struct telling {
	void (*each)(void *arg, const char *name);
	void *arg;
};

static fallible tell_unfinished(struct templates *all, const char *name, void *arg)
{
	const struct telling *telling = arg;

	if (warden_template_is_unfinished(all, name))
		telling->each(telling->arg, name);
	return OK;
}

fallible templates_unfinished(struct templates *all, void (*each)(void *arg, const char *name),
			      void *arg)
{
	struct telling telling = {each, arg};

	return template_cache_walk(all, tell_unfinished, &telling);
}

fallible template_forget(struct templates *all, const char *name)
{
	struct stat st;

	if (warden_template_is_unfinished(all, name))
		return trash_put(all->trash, all->layers.dir, name);

	if (!strcmp(name, "host"))
		return err_new(CONFLICT, "host_template", "the host's own template stays");
	if (!id_is_template(str_of(name)) ||
	    fstatat(all->layers.dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return template_none(all, name);
	return template_cache_retire(all, name);
}

struct page {
	const char *after;
	struct answer *out;
};

// Keeps the page sorted, with the first names after `after`.
static fallible add_entry(struct templates *all, const char *name, void *arg)
{
	struct page *page = arg;
	struct order_template *list = page->out->templates;
	uint32_t count = page->out->template_count, at = 0;

	(void)all;
	if (!id_is_template(str_of(name)) || strcmp(name, page->after) <= 0)
		return OK;
	while (at < count && strcmp(list[at].name, name) < 0)
		at++;
	if (at == ORDER_LIST_PAGE)
		return OK;
	if (count == ORDER_LIST_PAGE)
		count--;
	memmove(list + at + 1, list + at, (count - at) * sizeof(*list));
	list[at] = (struct order_template){0};
	snprintf(list[at].name, sizeof(list[at].name), "%s", name);
	page->out->template_count = count + 1;
	return OK;
}

static void warden_template_describe(struct templates *all, struct order_template *entry)
{
	auto_buf text = BUF_INIT(META_MAX);
	char path[TEMPLATE_CACHE_NAME + 8];
	struct str rest, line, key;
	uint64_t created = 0;

	entry->is_host = !strcmp(entry->name, "host");
	snprintf(path, sizeof(path), "%s/meta", entry->name);
	err_free(path_read(all->layers.dir, path, &text)); // absent for the host's own
	rest = buf_view(&text);
	while (str_cut(&rest, '\n', &line)) {
		if (!str_cut(&line, '=', &key))
			continue;
		if (str_is(key, "kind"))
			entry->is_host |= str_is(line, "host");
		else if (str_is(key, "created"))
			str_to_u64(line, 0, INT64_MAX, &created);
		else if (str_is(key, "bytes"))
			str_to_u64(line, 0, INT64_MAX, &entry->bytes);
	}
	entry->created = (int64_t)created;
}

fallible template_list(struct templates *all, const char *after, struct answer *out)
{
	struct page page = {after ? after : "", out};

	out->template_count = 0;
	TRY(template_cache_walk(all, add_entry, &page));
	TRY(add_entry(all, "host", &page));
	for (uint32_t i = 0; i < out->template_count; i++)
		warden_template_describe(all, &out->templates[i]);
	return OK;
}
