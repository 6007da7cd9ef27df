// Image configuration, cached by template. A file worker reads the file from a box before anything
// of the owner runs there, so it is the template's. It affects only boxes of that template.
#include "manager/images.h"

#include "base/log.h"
#include "base/mem.h"
#include "box/files.h"
#include "loop/closer.h"
#include "types/image.h"

#define READ_MS 10000

static struct image *image_parse(const struct entry *entry, struct str text)
{
	struct image *image = mem_new_of(struct image);
	auto_err err = text.len ? image_read(text, image) : OK;

	if (err)
		log_event(LOG_WARN, "template.bad_image", "template", entry->record.template,
			  "sandbox", entry->record.id, "reason", err_reason(err), NULL);
	return image;
}

static fallible image_of(struct entry *entry, const struct files *files, const struct image **out)
{
	struct manager *manager = entry->manager;
	struct str name = str_of(entry->record.template);
	auto_buf text = BUF_INIT(IMAGE_BYTES_MAX);
	struct fileop_stat stat;
	auto_closer_fd fd = -1;
	struct image *image = map_get(manager->images, name);

	if (!image) {
		struct err *err = files_read(files, IMAGE_FILE, &text, &fd, &stat);

		// A directory or symlink of that name is no configuration.
		if (err && err_kind(err) != ERR_NOT_FOUND && err_kind(err) != ERR_INVALID)
			return err_while(err, "read the configuration of the image");
		err_free(err);
		image = map_get(manager->images, name); // another create may have been faster
	}
	if (!image) {
		image = image_parse(entry, buf_view(&text));
		map_put(manager->images, name, image);
	}
	*out = image;
	return OK;
}

static void take_over(struct record *record, const struct image *image)
{
	for (size_t i = 0; i < image->env.count; i++)
		if (!env_map_get(&record->env, str_of(image->env.at[i].name)))
			env_map_set(&record->env, str_of(image->env.at[i].name),
				    str_of(image->env.at[i].value));
	if (!record->user[0])
		memcpy(record->user, image->user, sizeof(record->user));
	if (!record->workdir && image->workdir[0])
		record->workdir = mem_str(image->workdir);
}

static bool is_root(const char *user)
{
	return !strcmp(user, "root") || !strcmp(user, "0") || !strcmp(user, "0:0") ||
	       !strcmp(user, "root:root");
}

fallible images_apply(struct entry *entry)
{
	struct record *record = &entry->record;
	struct files files = {
		.box = entry->box,
		.user = "",
		.deadline = loop_now(entry->manager->loop) + READ_MS,
	};
	const struct image *image = NULL;
	struct fileop_stat stat;

	if (strcmp(record->template, "host") != 0) {
		TRY(image_of(entry, &files, &image));
		if (image)
			take_over(record, image);
	}
	if (is_root(record->user))
		record->user[0] = '\0';
	if (record->workdir)
		TRY(files_mkdir(&files, record->workdir, true, 0755), "make the directory %s",
		    record->workdir);
	files.user = record->user;
	return record->user[0] ? files_stat(&files, "/", true, &stat) : OK;
}

static void image_free(struct image *image)
{
	image_done(image);
	free(image);
}

void images_forget(struct manager *manager, const char *template)
{
	struct image *image = map_take(manager->images, str_of(template));

	if (image)
		image_free(image);
}

void images_done(struct manager *manager)
{
	struct str name;
	void *image;

	for (size_t at = 0; map_next(manager->images, &at, &name, &image);)
		image_free(image);
	map_free(manager->images);
}
