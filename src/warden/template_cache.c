// The directory DATA/layers: lookup, the cached host template, and removal. The host template is
// made again when its stamp changes. A removed directory is renamed to .gone-N first, because boxes
// may have it mounted. Every rename is RENAME_NOREPLACE.
//
// syscalls: openat close renameat2 getdents64 newfstatat fcntl fsync
#include "warden/template_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "os/path.h"

fallible template_cache_walk(struct templates *all,
			     fallible (*each)(struct templates *, const char *, void *), void *arg)
{
	auto_fd fd = openat(all->layers.dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	struct err *err = OK;

	if (!dir)
		return err_sys(errno, "list the templates");
	take_fd(&fd);
	while (!err && (entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			err = each(all, entry->d_name, arg);
	closedir(dir);
	return err;
}

void template_cache_is_gone(struct templates *all, const char *name)
{
	struct template_cache_gone *gone = mem_new_of(struct template_cache_gone);

	snprintf(gone->name, sizeof(gone->name), "%s", name);
	gone->since_us = clock_us();
	link_add(&all->gone, &gone->link);
}

fallible template_cache_retire(struct templates *all, const char *name)
{
	char aside[TEMPLATE_CACHE_NAME];

	snprintf(aside, sizeof(aside), ".gone-%llx", (unsigned long long)all->number++);
	if (renameat2(all->layers.dir, name, all->layers.dir, aside, RENAME_NOREPLACE))
		return errno == ENOENT ? OK : err_sys(errno, "set '%s' aside", name);
	template_cache_is_gone(all, aside);
	return path_sync(all->layers.dir);
}

int template_cache_root(struct templates *all, const char *name)
{
	char path[TEMPLATE_CACHE_NAME + 8];

	snprintf(path, sizeof(path), "%s/root", name);
	return openat(all->layers.dir, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static fallible host_make(struct templates *all, const char *name)
{
	struct path_copied sum = {0};
	char temp[TEMPLATE_CACHE_NAME];
	int64_t began = clock_ms();
	struct err *err;
	auto_fd dir = -1;
	auto_fd root = -1;
	char took[24];

	snprintf(temp, sizeof(temp), ORDER_UNFINISHED "%llx", (unsigned long long)all->number++);
	TRY(path_dir(all->layers.dir, temp, 0755, &dir));
	err = path_dir(dir, "root", 0755, &root);
	if (!err)
		err = host_build(all->host_dir, root, &sum);
	if (!err && renameat2(all->layers.dir, temp, all->layers.dir, name, RENAME_NOREPLACE))
		err = err_sys(errno, "name the host's template");
	if (err) {
		err_free(trash_put(all->trash, all->layers.dir, temp));
		return err_while(err, "make the host's template");
	}
	snprintf(took, sizeof(took), "%lld", (long long)(clock_ms() - began));
	log_event(LOG_INFO, "template.host", "ms", took, NULL);
	return OK;
}

static fallible retire_other(struct templates *all, const char *name, void *keep)
{
	return str_starts(str_of(name), ".host-") && strcmp(name, keep) != 0
		       ? template_cache_retire(all, name)
		       : OK;
}

fallible template_cache_host(struct templates *all)
{
	char stamp[HOST_STAMP_SIZE], name[TEMPLATE_CACHE_NAME];
	auto_fd root = -1;
	auto_fd usr = -1;

	TRY(host_stamp(all->host_dir, all->boot, stamp));
	if (all->host_root >= 0 && !strcmp(stamp, all->stamp))
		return OK;
	snprintf(name, sizeof(name), ".host-%s", stamp);
	root = template_cache_root(all, name);
	if (root < 0) {
		TRY(host_make(all, name));
		root = template_cache_root(all, name);
	}
	usr = openat(all->host_dir, "usr", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0 || usr < 0)
		return err_sys(errno, "open the host's template");
	TRY(template_cache_walk(all, retire_other, name));
	if (all->host_root >= 0)
		close(all->host_root);
	if (all->host_usr >= 0)
		close(all->host_usr);
	all->host_root = take_fd(&root);
	all->host_usr = take_fd(&usr);
	snprintf(all->stamp, sizeof(all->stamp), "%s", stamp);
	return OK;
}

void template_cache_job_drop(struct templates *all, struct template_cache_job *job)
{
	// Renamed if the job succeeded: then the name is absent.
	err_free(trash_put(all->trash, all->layers.dir, job->temp));
	link_drop(&job->link);
	all->job_count--;
	if (job->report >= 0)
		close(job->report);
	free(job);
}
