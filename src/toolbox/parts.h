// POST /api/backup/upload-parts: an archive goes to object storage, part by part, to URLs that were
// signed for it.
#pragma once

#include "http/router.h"

route_fn toolbox_backup_upload;
