"""How the gallery runs the examples: each writes its picture to the path that it is given as its argument."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx_gallery.scrapers import figure_rst

_PICTURE = "_picture.png"
_CALL = "main(*sys.argv[1:])"


class PictureArgument:
    """The arguments of an example: the path of its picture, beside its page. It gets its own path as well."""

    def __call__(self, gallery_conf: Mapping[str, Any], script_vars: Mapping[str, Any]) -> list[str]:  # noqa: ARG002, D102 - by the class
        script_vars["example_globals"]["__file__"] = script_vars["src_file"]
        return [str(picture_of(script_vars))]

    def __repr__(self) -> str:
        return "PictureArgument()"  # the same in each build: settings that change make Sphinx read all pages anew


def picture_of(script_vars: Mapping[str, Any]) -> Path:
    """Where an example writes its picture."""
    target = Path(script_vars["target_file"])
    return target.with_name(target.stem + _PICTURE)


def scrape(block: object, block_vars: Mapping[str, Any], gallery_conf: Mapping[str, Any]) -> str:  # noqa: ARG001
    """Take the picture that an example wrote, and return how its page shows it."""
    written = picture_of(block_vars)
    if not written.exists():
        return ""
    place = Path(next(block_vars["image_path_iterator"]))
    written.replace(place)
    return str(figure_rst([str(place)], gallery_conf["src_dir"], fig_titles=_title(block_vars)))


def _title(block_vars: Mapping[str, Any]) -> str:
    return Path(block_vars["src_file"]).read_text().removeprefix('"""').partition("\n")[0]


def as_notebook(text: str) -> str:
    """The notebook of an example, which draws the picture and reads files that lie beside it."""
    notebook = json.loads(text)
    for cell in notebook["cells"]:
        source = "".join(cell["source"]).replace("Path(__file__).parents[1]", "Path()")
        if cell["cell_type"] == "code" and _CALL in source:
            source = source.replace(_CALL, 'main("picture.png")')
            source += '\nfrom IPython.display import Image\n\nImage("picture.png")'
        cell["source"] = [source]
    return json.dumps(notebook, indent=1)


def _mend_notebooks(app: Sphinx) -> None:
    for path in Path(app.srcdir, "gallery").glob("*.ipynb"):
        text = path.read_text()
        if _CALL in text:
            path.write_text(as_notebook(text))


def settings() -> dict[str, Any]:
    """`sphinx_gallery_conf`."""
    return {
        "examples_dirs": ["../examples"],
        "gallery_dirs": ["gallery"],
        "filename_pattern": r"\.py$",
        "write_computation_times": False,  # its page loads scripts of other hosts
        "ignore_pattern": r"__init__\.py|on_spark\.py|serve/",
        "reset_argv": PictureArgument(),
        "image_scrapers": (scrape,),
        "reset_modules": (),
        "backreferences_dir": "gallery/backreferences",
        "doc_module": ("plica",),
        "within_subsection_order": "ExampleTitleSortKey",
        "only_warn_on_example_error": False,
        "download_all_examples": False,
        "show_signature": False,
        "plot_gallery": "True",
        "thumbnail_size": (480, 336),
        "remove_config_comments": True,
        "parallel": int(os.environ.get("PLICA_DOCS_JOBS", "2")),
    }


def setup(app: Sphinx) -> dict[str, bool]:
    """Mends the notebooks after sphinx-gallery wrote them."""
    app.connect("builder-inited", _mend_notebooks, priority=900)
    return {"parallel_read_safe": True}
