// POST /api/backup/upload-parts: uploads an archive to object storage, part by part, to presigned
// URLs.
#pragma once

#include "http/router.h"

route_fn toolbox_backup_upload;
