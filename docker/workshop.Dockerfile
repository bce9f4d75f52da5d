# The lessons for one person: JupyterLab, Java, the kit and its jars, as a user without rights. From the repository's root:
#   docker build -f docker/workshop.Dockerfile -t lab-workshop .
#   docker run --rm --shm-size 1g -p 127.0.0.1:8888:8888 lab-workshop
# Debian 13 has Python 3.13 and Java 21; requirements.txt and lab/machine/jars.txt pin all else.
FROM debian:trixie-slim

RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates make openjdk-21-jre-headless procps python3-venv tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 --shell /bin/bash lab \
    && install -d -o lab /opt/lab

USER lab
WORKDIR /opt/lab
# what takes minutes first: a change of a lesson leaves it as it is
COPY --chown=lab Makefile requirements.txt requirements-dev.txt requirements.lock requirements-dev.lock requirements-build.lock pyproject.toml README.md LICENSE ./
COPY --chown=lab lab lab
ENV LAB_CACHE=/opt/lab/.cache
# the second line is what JupyterHub starts in a container; alone, the image does not need it
RUN make setup REQUIREMENTS=requirements.txt \
    && .venv/bin/pip install --no-cache-dir --quiet --only-binary :all: --constraint requirements.txt jupyterhub==6.1.1 \
    && rm -rf /home/lab/.cache
COPY --chown=lab docs docs
COPY --chown=lab datasets datasets
COPY --chown=lab notebooks notebooks

ENV PATH=/opt/lab/.venv/bin:$PATH
EXPOSE 8888
# tini hands signals on and collects the workers that ended
ENTRYPOINT ["tini", "--"]
# to all addresses of the container; the port of the host is for the host alone, a token is asked for, new at each start
# unless JUPYTER_TOKEN is set, and a page of another name that leads here (DNS rebinding) is refused
CMD ["jupyter", "lab", "--ServerApp.ip=0.0.0.0", "--ServerApp.allow_remote_access=False", "--no-browser", "--ServerApp.root_dir=/opt/lab", "--LabApp.default_url=/lab/tree/notebooks/00-start-here.ipynb"]
